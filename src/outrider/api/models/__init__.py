"""What goes over the wire: bodies that are read strictly, and answers in camelCase."""
