"""Kafka I/O: metadata, offsets and fetches over the protocol, and record batches turned into Arrow columns."""
