"""The thin side: metadata, offsets and fetches over the protocol, record batches cut into Arrow columns."""
