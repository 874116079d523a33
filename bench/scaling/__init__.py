"""What a cluster of many hosts costs: unit costs measured in one process, and a model that multiplies them."""
