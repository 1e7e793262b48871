"""What goes over the wire: strictly read bodies, and responses in camelCase."""
