"""What a blocking client of a Kafka cluster is built on: the command line's and the pipeline's."""
