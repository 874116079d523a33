"""The container images under testcontainers: `make image-test`."""
