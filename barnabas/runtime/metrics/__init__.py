"""A pod's metrics endpoint, and the metrics of its processes."""
