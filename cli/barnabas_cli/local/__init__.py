"""A local cluster: its directory, its processes, whether it is ready and healthy."""
