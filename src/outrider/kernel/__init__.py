"""The use cases. All IO goes through ports; one role per file, named by a role noun."""
