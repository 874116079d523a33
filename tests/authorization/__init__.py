"""The authorizer beside Kafka's own, and what it costs."""
