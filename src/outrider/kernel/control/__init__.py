"""What people and their programs decide about campaigns, phases and runs."""
