"""The operations of a log, one in each module. They share the state of the log and do not depend on each other."""
