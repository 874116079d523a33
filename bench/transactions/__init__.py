"""Transactions of Kafka's own producer, beside Apache Kafka's in the same run."""
