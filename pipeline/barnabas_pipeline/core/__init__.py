"""Decisions of the pipeline: pure and synchronous, without Spark, without a client, without a clock."""
