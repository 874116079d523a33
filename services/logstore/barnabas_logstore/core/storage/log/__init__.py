"""One partition's log: `PartitionLog` over its features, and these over its state."""
