"""Clients that make transactions."""
