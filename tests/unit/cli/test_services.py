"""What the processes of a local cluster are started with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_cli.etcd_binary import cache_path
from barnabas_cli.local.services import Role, service_environment


def test_services_keep_their_bytecode_apart_where_none_may_be_written_beside_the_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    environment = service_environment()
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["PYTHONPYCACHEPREFIX"] == str(cache_path() / "bytecode")


def test_where_bytecode_goes_is_otherwise_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    assert "PYTHONPYCACHEPREFIX" not in service_environment()


def test_services_find_the_packages_where_this_process_found_them(tmp_path: Path) -> None:
    """Without site-packages, so that an editable install doesn't lead to them."""
    packages = ["barnabas", "barnabas_protos", *(f"barnabas_{role}" for role in Role if role is not Role.ETCD)]
    command = [sys.executable, "-S", "-c", f"import {', '.join(packages)}"]
    subprocess.run(command, cwd=tmp_path, env=service_environment(), check=True)
