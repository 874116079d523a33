from __future__ import annotations

import pytest


def test_the_charts_own_tests_run_where_a_helm_engine_is() -> None:
    """Without one they are not collected (conftest.py), and this says so."""
    pytest.importorskip("helm_python", reason="no Helm engine here: `make chart` installs one and runs them")
    pytest.importorskip("kubernetes_validate", reason="no Kubernetes schemas here: `make chart` installs them")
    from tests.unit.deploy import test_chart

    assert test_chart.MATRIX
