"""Announcements and live campaign events."""
