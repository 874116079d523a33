"""Idempotent producers that act as the real ones: state machines written from what those do, and their connections."""
