"""OpenMessaging Benchmark's documented workloads, by a driver of our own, on Barnabas and Apache Kafka in turn."""
