"""Barnabas: a Kafka broker, taken apart."""

__version__ = "0.2.0"
