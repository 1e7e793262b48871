"""What is kept outside the database: journals, spools, artifacts, and files of one owner."""
