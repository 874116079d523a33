"""The operators' port: its configuration, and who is let in."""
