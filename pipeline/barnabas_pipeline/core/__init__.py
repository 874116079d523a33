"""Decisions of the pipeline: pure and synchronous, without Spark, a client or a clock."""
