"""Traces of sampled requests: their export, and their context in calls."""
