"""What a batch is checked for, and what is found in it."""
