"""Reports: certificates, explanations, previews."""
