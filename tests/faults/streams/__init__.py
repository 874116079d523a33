"""Kafka Streams, exactly once, while the processes of its cluster are killed."""
