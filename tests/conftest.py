"""What holds for every test: Hypothesis never judges by the clock, since a loaded machine would fail a correct test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("barnabas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barnabas")
