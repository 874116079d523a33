"""A consumer group under faults: what its members saw, and whether that is what at-least-once allows."""
