"""Coordinators: state machines over partitions of internal topics that this logstore leads (design §4)."""
