"""Jobs: claiming, holding and rescuing them, and the background loops."""
