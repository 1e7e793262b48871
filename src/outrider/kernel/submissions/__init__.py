"""Single messages: the door through which they come."""
