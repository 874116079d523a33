"""The base of all API handlers: one object per API key and processor, given what it needs when it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.model.cluster_view import ClusterView
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock, Deadlines


@dataclass(slots=True, frozen=True)
class RequestEnvironment:
    """What every handler needs, whatever it serves. Backends are not in it: a handler names those that it uses."""

    config: GatewayConfig
    clock: Clock
    cluster: ClusterView
    deadlines: Deadlines
    responder: Responder


class Handler(ABC):
    """Serves the requests of one API key. A request that is under way holds its handler."""

    api_key: ClassVar[ApiKey]
    version_min: ClassVar[int]
    version_max: ClassVar[int]
    request_class: ClassVar[type[PendingRequest]] = PendingRequest
    """What a request of this key needs while it is under way."""
    takes_body: ClassVar[bool] = False
    """Whether `start` gets the request `WithBody`."""

    def __init_subclass__(cls, *, api_key: ApiKey | None = None) -> None:
        """`api_key` is given by the class that serves it; a class without one is a base of several."""
        super().__init_subclass__()
        if api_key is not None:
            cls.api_key = api_key
            cls.version_min = min(api_key.version_min, api_key.advertised_min)
            cls.version_max = api_key.version_max

    def __init__(self, environment: RequestEnvironment) -> None:
        self.config = environment.config
        self.clock = environment.clock
        self.cluster = environment.cluster
        self.image = environment.cluster.image
        self.deadlines = environment.deadlines
        self.responder = environment.responder

    @abstractmethod
    def start(self, pending: Any, request: Any) -> Steps[None] | None:
        """Begin a request; it ends in `Responder.respond` or `finish`, now or later.

        `slot` is of `request_class`, `request` is decoded. Work that grows with the request is returned, to be done
        in steps.
        """
