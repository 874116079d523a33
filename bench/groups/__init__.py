"""Consumer groups beside Apache Kafka's: rebalances, heartbeats, commits."""
