"""Tests run the plain modules, whatever was compiled, unless BARNABAS_CORES says otherwise: many replace a function."""

import os

os.environ.setdefault("BARNABAS_CORES", "interpreted")
