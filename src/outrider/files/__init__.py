"""What is kept outside the database: journals, spools, artifacts, and private files."""
