"""A gateway of another cluster, which takes the logstores of this one for its own: they refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.channel.messages import ExchangeRequest, Hello
from tests.sim.network import Network
from tests.sim.process import Process
from tests.sim.protocols import EXCHANGE
from tests.sim.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode


class Stranger(Process):
    def __init__(
        self, scheduler: Scheduler, network: Network, logstores: Sequence[LogstoreNode], interval_us: int
    ) -> None:
        super().__init__("stranger", scheduler, network)
        self._logstores = logstores
        self._interval_us = interval_us

    def boot(self) -> None:
        self._call()

    def _call(self) -> None:
        logstore = self.scheduler.random.choice(self._logstores)
        end = self.network.connect(EXCHANGE, self, f"{logstore.name}:data", self)
        end.send(ExchangeRequest(hello=Hello("another cluster", self.name)))
        self.after(self.scheduler.below(2 * self._interval_us) + 1, "calls again", self._call)

    def on_message(self, message: object) -> None:
        """It is refused, whatever is said."""

    def on_closed(self, reason: str) -> None:
        """So it was."""
