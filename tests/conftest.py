"""What holds for every test: the quick profile of Hypothesis, unless `--hypothesis-profile` names another one."""

from __future__ import annotations

from hypothesis import settings

from barnabas.cores import COMPILED, running
from tests.compiled import skip_what_replaces_compiled_code
from tests.tiers import QUICK

settings.load_profile(QUICK)

if running() == COMPILED:
    skip_what_replaces_compiled_code()
