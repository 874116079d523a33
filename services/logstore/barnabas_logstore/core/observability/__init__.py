"""What of a logstore is measured."""
