"""What holds for every test: the quick profile of Hypothesis, unless `--hypothesis-profile` names another one."""

from __future__ import annotations

from hypothesis import settings

from tests.tiers import QUICK

settings.load_profile(QUICK)
