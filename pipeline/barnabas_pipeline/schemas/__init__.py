"""What records' values are by: nothing (JSON), a schema file, or a registry of Confluent's kind."""
