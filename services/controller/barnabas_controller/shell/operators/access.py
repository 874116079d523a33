"""Who calls the operators' API, and whether it may: every call is checked here, and is one line in the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from barnabas.cluster.access.operator_calls import EVENT
from barnabas.cluster.access.operator_permissions import LEAST_ROLE_BY_METHOD, OperatorRole, highest_role, may_operate
from barnabas.cluster.access.service_permissions import HEALTH_METHODS
from barnabas.runtime.inter_service.call_guard import CallRefused
from barnabas.runtime.logs import get_logger
from barnabas.runtime.tokens.token_verifier import TokenRefused
from barnabas_controller.shell.operators.call_records import CallRecords
from barnabas_controller.shell.operators.operator_tokens import OperatorTokens

_BEARER: Final = "bearer "
_CERTIFICATE_NAMES: Final = ("x509_common_name", "x509_subject_alternative_name")

_log = get_logger("operators")


@dataclass(slots=True, frozen=True)
class Caller:
    """Who calls; `role` None: it may do nothing."""

    name: str
    role: OperatorRole | None


class OperatorCheck:
    """Lets a call through if its caller has the least role for it."""

    def __init__(
        self,
        how: str,
        names_by_role: Mapping[OperatorRole, Collection[str]],
        tokens: OperatorTokens | None = None,
        records: CallRecords | None = None,
    ) -> None:
        """`how` callers authenticate: "none", "certificate" or "token"; `tokens` verifies the last. `records` gets
        every call but those of health.
        """
        self._how = how
        self._names_by_role = names_by_role
        self._tokens = tokens
        self._records = records

    async def __call__(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if method in HEALTH_METHODS:
            return
        try:
            caller = await self._authenticate(context)
        except TokenRefused as refused:
            self._record(method, context, "", "unauthenticated", str(refused))
            raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, str(refused)) from None
        if may_operate(caller.role, method):
            self._record(method, context, caller.name, "allowed")
            return
        least = LEAST_ROLE_BY_METHOD.get(method)
        held = caller.role.name.lower() if caller.role is not None else "none"
        reason = f"{caller.name} has the role {held}; {method} needs {least.name.lower() if least else 'another port'}"
        self._record(method, context, caller.name, "denied", reason)
        raise CallRefused(grpc.StatusCode.PERMISSION_DENIED, reason)

    async def _authenticate(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        """Raises TokenRefused."""
        if self._how == "none":
            return Caller("anonymous", OperatorRole.ADMIN)
        if self._how == "certificate":
            found = context.auth_context()
            names = [name.decode(errors="replace") for key in _CERTIFICATE_NAMES for name in found.get(key, ())]
            return Caller(
                names[0] if names else "a certificate without names", highest_role(names, self._names_by_role)
            )
        assert self._tokens is not None
        subject = await self._tokens.verify(_token_of(context))
        return Caller(subject.name, highest_role((subject.name, *subject.roles), self._names_by_role))

    def _record(
        self,
        method: str,
        context: grpc.aio.ServicerContext[Any, Any],
        caller: str,
        verdict: str,
        reason: str = "",
    ) -> None:
        log = _log.info if verdict == "allowed" else _log.warning
        details = {"reason": reason, "limit_key": f"operators {verdict}"} if reason else {}
        log(EVENT, principal=caller, peer=context.peer(), operation=method, verdict=verdict, **details)
        if self._records is not None:
            self._records.record(caller, context.peer(), method, verdict, reason)


def _token_of(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """Raises TokenRefused."""
    for key, value in context.invocation_metadata() or ():
        text = value if isinstance(value, str) else value.decode("ascii", "replace")
        if key == "authorization" and text.lower().startswith(_BEARER):
            return text[len(_BEARER) :].strip()
    raise TokenRefused("a bearer token is needed in the metadata: authorization: Bearer …")
