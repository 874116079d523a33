"""A service's configuration: files, flags, and the properties files of Kafka."""
