"""The senders that were there before rules: a file a sender, each composes and none sends."""
