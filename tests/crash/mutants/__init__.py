"""`python -m tests.crash.mutants`: faults of ours, planted in the storage one at a time, that crashes have to bring to
light.

Each breaks one rule of writing, flushing or recovering, in a process of its own, and is run from seed to seed until
something is noticed. The last line is `N planted, N caught`. Some of them are what this harness found, planted again.
"""
