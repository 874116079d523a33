"""kfake, franz-go's in-memory Kafka: a peer in compiled code, of one process and without a disk."""
