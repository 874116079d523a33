"""Everything here needs a Helm engine, which `make chart` installs; a venv without it skips these tests and says so."""

from __future__ import annotations

import importlib.util

collect_ignore_glob: list[str] = []
if any(importlib.util.find_spec(name) is None for name in ("helm_python", "kubernetes_validate", "yaml")):
    collect_ignore_glob += ["test_chart*.py", "test_manifests.py", "test_alerting.py"]
