"""Exceptions that the simulation throws within the cores, at every call from a host into a core and from one part of a
core to another."""
