"""Spark reading a topic: `format("barnabas")` beside Spark's own JVM connector."""
