"""Log directories: what is in them, whose they are, and moves between them."""
