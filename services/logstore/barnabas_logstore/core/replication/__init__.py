"""Replication: what leaders know of followers, how followers copy their leaders, and which replicas are in sync.

The decisions are pure like everything in the core; see docs/adr/0012-replication.md for the overall design.
"""
