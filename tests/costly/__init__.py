"""The costliest requests of every API key, made from its schema: what no client may hold a loop by."""
