"""Checks of batches, and lookups within them."""
