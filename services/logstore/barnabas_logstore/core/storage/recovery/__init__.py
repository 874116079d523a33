"""Open a log from its disk."""
