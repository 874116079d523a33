"""Replication: what leaders know of followers, what followers do to become like their leaders, who is in sync.

The decisions are pure like all of the core's; see docs/adr/0012-replication.md for the shape of the whole.
"""
