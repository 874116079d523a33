"""Idempotent producers of the clients that people use, while the leaders of their topic move."""
