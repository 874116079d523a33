"""The coordinator of groups of the classic protocol, and of the offsets that they commit (docs/adr/0013-groups.md)."""
