"""TLS beside Apache Kafka's: rates, CPU and handshakes (`python -m bench.tls`)."""
