"""Kafka clients in small: they speak the real bytes, over connections that may end at any time."""
