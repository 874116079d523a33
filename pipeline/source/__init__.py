"""Spark's Python Data Source `format("barnabas")`."""
