"""Barnabas: a Kafka broker split into four services."""

__version__ = "0.2.0"

from barnabas.cores import select

select()
