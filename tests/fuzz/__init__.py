"""Fuzzing: every place where bytes of others are parsed, under Atheris (`make fuzz`) and, bounded, in `make test`.

A target (`tests/fuzz/targets`) is one function that takes any bytes and returns; whatever it raises is a finding. The
same targets run in two ways:

- `python -m tests.fuzz`: coverage-guided, a process per target, for a given time. Inputs are made from the
  structure of what is parsed, then damaged (`mutations`), and the instrumented code says which were new.
- `test_targets.py`: the kept corpus and a few hundred inputs each by Hypothesis, each with its work counted in lines
  executed and its memory traced (`meter`), so that neither bound is judged by a clock.

What was found is in `tests/regressions`, one named test each with its input inline.
"""
