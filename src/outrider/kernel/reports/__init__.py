"""What is said about it: certificates, explanations, previews."""
