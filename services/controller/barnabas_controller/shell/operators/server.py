"""The gRPC server of the operators' port."""

from __future__ import annotations

from typing import Final

import grpc.aio

from barnabas.runtime.clock import wall_ms
from barnabas.runtime.inter_service.call_guard import CallGuard
from barnabas.runtime.inter_service.identity import reloading_server_credentials
from barnabas.runtime.pem_files import ReloadedPem
from barnabas.runtime.rpc import bind_server, server_options
from barnabas_controller.shell.operators.access import OperatorCheck
from barnabas_controller.shell.operators.call_records import CallRecords
from barnabas_controller.shell.operators.config import OperatorsConfig
from barnabas_controller.shell.operators.operator_tokens import OperatorTokens

REQUEST_BYTES_MAX: Final = 16 << 20
"""A plan with every partition of a large cluster fits; what has not been authenticated yet is read up to it."""


def create_operators_server(config: OperatorsConfig, records: CallRecords | None = None) -> tuple[grpc.aio.Server, int]:
    """Return the server, not yet started, and its port; `records` gets every call. Raises OSError: the listener, or its
    PEM files.
    """
    how = config.authentication_of_operators
    tokens = OperatorTokens(config.token_rules(), lambda: wall_ms() // 1000) if how == "token" else None
    check = OperatorCheck(how, config.names_by_role(), tokens, records)
    options = server_options((("grpc.max_receive_message_length", REQUEST_BYTES_MAX),))
    server = grpc.aio.server(options=options, interceptors=[CallGuard(check)])
    tls = config.operations_tls()
    credentials = None
    if tls is not None:
        credentials = reloading_server_credentials(ReloadedPem(tls), requires_certificate=how == "certificate")
    return bind_server(server, [config.operations_listeners], credentials)
