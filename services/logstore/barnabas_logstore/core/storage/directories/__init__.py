"""Log directories: their content, their owner, and moves between them."""
