"""The senders that predate rules: one file per sender; each composes and none sends."""
