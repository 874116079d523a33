"""The base of blocking clients of a Kafka cluster: the command line's and the pipeline's."""
