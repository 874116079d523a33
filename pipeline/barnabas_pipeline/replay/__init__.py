"""Records back into a topic: from a table, or from a time range of another topic."""
