"""The Operations service: what operators ask, with `barnabas` or grpcurl. Its contract is the .proto.

A room for each kind of question: `describing` (what the image knows), `groups` and `configs` (what logstores have to be
asked for), `reassigning`, `changing`, `watching`. What they share is in `calls`.
"""

from __future__ import annotations

from typing import Final

import grpc
import grpc.aio

from barnabas_controller.shell.driver import Driver
from barnabas_controller.shell.operations.calls import Method, Room, stream_method, unary_method
from barnabas_controller.shell.operations.changing import Changing
from barnabas_controller.shell.operations.configs import Configs
from barnabas_controller.shell.operations.describing import Describing
from barnabas_controller.shell.operations.groups import Groups
from barnabas_controller.shell.operations.logstore_questions import LogstoreQuestions
from barnabas_controller.shell.operations.reassigning import Reassigning
from barnabas_controller.shell.operations.watching import Watching
from barnabas_protos.controller.v1 import operations_pb2 as pb

SERVICE: Final[str] = pb.DESCRIPTOR.services_by_name["Operations"].full_name
_WATCH: Final = "WatchEvents"


def add_operations(server: grpc.aio.Server, driver: Driver) -> None:
    """Serve it."""
    questions = LogstoreQuestions(driver.core)
    rooms: list[Room] = [
        Describing(driver.core),
        Groups(driver.core, questions),
        Configs(driver, questions),
        Reassigning(driver, questions),
        Changing(driver),
    ]
    methods: dict[str, Method] = {}
    for room in rooms:
        methods |= room.methods()
    handlers = {name: unary_method(driver, name, method) for name, method in methods.items()}
    watching = Watching(driver)
    handlers[_WATCH] = stream_method(driver, watching.watch_events)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
