"""What a log does, one thing in each module. They share the state of the log and know nothing of each other."""
