"""The streams of peers: their requests and the responses."""
