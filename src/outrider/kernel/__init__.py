"""The use cases. All IO goes through ports; one role a file, a role noun for a name."""
