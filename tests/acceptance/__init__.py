"""Other people's suites against Barnabas, and what each of their tests is expected to show."""
