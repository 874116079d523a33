"""Most tests here need a Helm engine and Kubernetes' schemas. `make chart` installs them and runs these tests; without
them they are not collected."""

from __future__ import annotations

import importlib.util

collect_ignore_glob: list[str] = []
if any(importlib.util.find_spec(name) is None for name in ("helm_python", "kubernetes_validate")):
    collect_ignore_glob += ["test_chart*.py", "test_manifests.py", "test_alerting.py", "test_pipeline_kubernetes.py"]
