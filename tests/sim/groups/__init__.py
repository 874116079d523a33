"""Consumer groups: their members, the answers that members get, and what must be true of them (I13)."""
