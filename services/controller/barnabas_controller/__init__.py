import barnabas  # noqa: F401 - it decides which cores a process runs, before any of them is imported
