"""Commands of the controller."""
