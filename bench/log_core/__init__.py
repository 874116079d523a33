"""The log core alone: no service, no network, one thread. What of a logstore's speed is the log's.

`python -m bench.log_core` runs it and writes `bench/results/log-core-….json` and its section of
docs/verify/performance.md.
"""
