"""How a log is found on a disk."""
