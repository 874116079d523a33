"""What a logstore does by the clock and for its disks."""
