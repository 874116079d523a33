"""What a log is."""
