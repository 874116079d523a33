"""Periodic and disk-related work of a logstore."""
