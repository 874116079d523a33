"""Found by killing processors under load: a client that came back at once was given to the one that was starting."""

from __future__ import annotations

import os
import signal

from tests.regressions.test_stopped_processor import Gateway, gateway
from tests.unit.runtime.test_processes import until

__all__ = ["gateway"]


async def test_connections_go_to_processors_that_serve(gateway: Gateway) -> None:
    """It waited for that process to load all its modules, for seconds on a busy machine, with another one idle."""
    killed, _ = gateway.children
    os.kill(killed.pid, signal.SIGKILL)
    # On a busy machine the other one may have been silent for a moment: then none serves.
    await until(
        lambda: len(gateway.children) == 2 and killed not in gateway.children and not gateway.children[1].is_silent
    )
    assert gateway.processors._by_index[0].applied_revision < 0, "it has only just been started"
    clients = [gateway.connect() for _ in range(4)]
    assert gateway.connections() == [0, 4]
    await until(
        lambda: (
            gateway.processors._by_index[0].applied_revision == 1
            and not any(child.is_silent for child in gateway.children)
        )
    )
    clients += [gateway.connect() for _ in range(4)]
    assert gateway.connections() == [2, 6]
    for client in clients:
        client.close()


async def test_where_none_serves_yet_they_wait_with_those_that_start(gateway: Gateway) -> None:
    killed = gateway.children
    for child in killed:
        os.kill(child.pid, signal.SIGKILL)
    await until(lambda: len(gateway.children) == 2 and not set(killed) & set(gateway.children))
    client = gateway.connect()
    assert sum(gateway.connections()) == 1
    client.close()
