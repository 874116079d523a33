"""Barnabas: a Kafka broker, taken apart."""

__version__ = "0.1.0"
