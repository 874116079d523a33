"""The state of a log."""
