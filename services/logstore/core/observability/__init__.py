"""Metrics of a logstore."""
