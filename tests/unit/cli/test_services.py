"""What the processes of a local cluster are started with."""

from __future__ import annotations

import pytest

from barnabas.cli.etcd_binary import cache_path
from barnabas.cli.services import service_environment


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
