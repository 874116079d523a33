"""Tests run the plain modules, whatever was compiled, unless BARNABAS_CORES says otherwise: many replace a function.

THROWING_CORES: they take the binary whose methods can throw; `tests.sim.exceptions.throwing_build` makes it.
"""

import os

THROWING_FOLDER = "build/throwing"
"""Of that binary, in the checkout."""

os.environ.setdefault("BARNABAS_CORES", "interpreted")

if os.environ.get("THROWING_CORES"):
    from barnabas.cores import ROOT, find_build, use

    use(find_build([ROOT / THROWING_FOLDER]))
