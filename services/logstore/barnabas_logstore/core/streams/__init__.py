"""The streams of peers: what they ask for, and what they are sent."""
