"""Partitions on disk in Kafka's own format: a log of segments, its indexes, its checkpoints, and how they survive a
crash.
"""
