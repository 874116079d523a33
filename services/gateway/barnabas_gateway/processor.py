"""`python -m barnabas_gateway.processor`: one processor of a gateway, started by the gateway's acceptor."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import msgspec

import barnabas.runtime.code_loading  # noqa: F401 - before what it is for
from barnabas.runtime.allocator import keep_large_buffers
from barnabas.runtime.logs import configure_logging
from barnabas.runtime.loop.background import awaited_task
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.processes.spawning import parent_socket
from barnabas_gateway.shell import processor_ipc
from barnabas_gateway.shell.driver import GatewayDriver


async def serve() -> None:
    """Run until drained, or until the acceptor is gone.

    Raises what ends it early: an exception of a link, or of a metadata update.
    """
    stopped = asyncio.Event()
    # The acceptor decides when to drain; a signal to the whole process group must not act before its command.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)
    driver: GatewayDriver | None = None
    settled = asyncio.Event()

    def on_message(kind: bytes, payload: bytes, fds: list[int]) -> None:
        nonlocal driver
        if driver is not None:
            driver.acceptor_message(kind, payload, fds)
            return
        assert kind == processor_ipc.SETTINGS, "the settings come first"
        settings = msgspec.json.decode(payload, type=processor_ipc.ProcessorSettings)
        configure_logging(f"gateway/{settings.index}", settings.properties.log_level, settings.properties.log_format)
        settings.properties.take_identity()
        driver = GatewayDriver(settings, acceptor)
        settled.set()

    acceptor = parent_socket(on_message, stopped.set)
    await settled.wait()
    assert driver is not None
    links = awaited_task(driver.links.run())
    drained = awaited_task(driver.drained.wait())
    gone = awaited_task(stopped.wait())
    ends: list[asyncio.Future[Any]] = [links, drained, gone, driver.failure]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    driver.close()
    acceptor.close()
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def main() -> None:
    keep_large_buffers()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
