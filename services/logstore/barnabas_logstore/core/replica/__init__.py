"""The partitions that this logstore hosts."""
