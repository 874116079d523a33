"""Consumer groups: who is in them, what their members are told, and what must be true of that (I13)."""
