"""Topics to tables with Spark, and back: a client of any Kafka cluster, with no part in the broker.

`core` decides and is pure; `kafka` speaks the protocol and cuts record batches into Arrow columns; `source` is Spark's
`format("barnabas")`; `tables` and `replay` are jobs on top of it.
"""
