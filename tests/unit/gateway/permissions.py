"""Say what clients may do, in tests that are about something else than ACLs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.cluster.acls import Operation, Resource
from barnabas_gateway.core.model.authorizer import Authorizer


def allow_if(monkeypatch: pytest.MonkeyPatch, is_allowed: Callable[[Operation, Resource], bool]) -> None:
    def authorize(
        _: Authorizer, request: Any, operation: Operation, resource: Resource, *, log_denied: bool = True
    ) -> bool:
        assert request.connection.context is not None
        return is_allowed(operation, resource)

    monkeypatch.setattr(Authorizer, "authorize", authorize)


def deny_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_if(monkeypatch, lambda *_: False)
