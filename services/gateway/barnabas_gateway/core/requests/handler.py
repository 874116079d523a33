"""The base of all API handlers: one object per API key and processor, which gets what it needs in its constructor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import BaseRequest, PendingRequest
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.model.authorizer import Authorizer
from barnabas_gateway.core.model.cluster_view import ClusterView
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock, Deadlines


@dataclass(slots=True, frozen=True)
class RequestEnvironment:
    """What every handler needs, whatever it serves. Backends are not part of it: a handler lists those that it uses."""

    config: GatewayConfig
    clock: Clock
    cluster: ClusterView
    deadlines: Deadlines
    responder: Responder
    authorizer: Authorizer


class Handler(ABC):
    """Serves the requests of one API key. A request in progress references its handler."""

    api_key: ClassVar[ApiKey]
    version_min: ClassVar[int]
    version_max: ClassVar[int]
    request_class: ClassVar[type[PendingRequest]] = BaseRequest
    """The state of a request of this key while it is in progress."""
    takes_body: ClassVar[bool] = False
    """Whether `start` gets the request `WithBody`."""

    def __init_subclass__(cls) -> None:
        """A class that serves a key sets `api_key`; a class without one is a base of several."""
        super().__init_subclass__()
        api_key: ApiKey | None = vars(cls).get("api_key")
        if api_key is not None:
            cls.version_min = min(api_key.version_min, api_key.advertised_min)
            cls.version_max = api_key.version_max

    def __init__(self, environment: RequestEnvironment) -> None:
        self.config = environment.config
        self.clock = environment.clock
        self.cluster = environment.cluster
        self.image = environment.cluster.image
        self.deadlines = environment.deadlines
        self.responder = environment.responder
        self.authorizer = environment.authorizer

    @abstractmethod
    def start(self, pending: Any, request: Any) -> Steps[None] | None:
        """Start a request; it ends in `Responder.respond` or `finish`, now or later.

        `pending` is of `request_class`, `request` is decoded. Work that grows with the request is returned, to be done
        in steps: one `yield` of its cost, mostly 1, for each element.
        """
