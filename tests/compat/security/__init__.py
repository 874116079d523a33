"""Clients by the ways to authenticate and the versions of TLS: `make security-matrix`."""
