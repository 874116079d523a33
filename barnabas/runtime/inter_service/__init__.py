"""Mutual TLS between the services: who this process is, and what other processes may call in it."""
