"""The processes of a simulated cluster: each runs the production core of its service, in place of that service's
shell."""
