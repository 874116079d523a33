"""`barnabas-pipeline` for spark-submit, which takes a program for Python by its .py and for a jar without."""

from barnabas_pipeline.cli.__main__ import main

main()
