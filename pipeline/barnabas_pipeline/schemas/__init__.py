"""Schemas of records' values: none (JSON), a schema file, or a Confluent-compatible registry."""
