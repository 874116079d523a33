"""Appends, reads and queries of gateways."""
