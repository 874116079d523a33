"""The table of `make bench`: every row beside Apache Kafka, in turn, from the measurements of the other benches."""
