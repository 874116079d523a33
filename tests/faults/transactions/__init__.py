"""Transactions of real clients under real faults: `python -m tests.faults.transactions`; see docs/verify/faults.md."""
