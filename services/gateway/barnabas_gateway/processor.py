"""`python -m barnabas_gateway.processor`: one processor of a gateway, started by the gateway's acceptor."""

from __future__ import annotations

import asyncio
import signal

import msgspec

from barnabas.runtime.allocator import keep_large_buffers
from barnabas.runtime.idle import new_event_loop
from barnabas.runtime.logs import configure_logging
from barnabas.runtime.processes import parent_socket
from barnabas_gateway.shell import joint
from barnabas_gateway.shell.processor_host import ProcessorHost


async def serve() -> None:
    """Until drained, or the acceptor is gone."""
    stopped = asyncio.Event()
    # The acceptor decides when to drain; a signal to the whole process group must not come before its word.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)
    host: ProcessorHost | None = None
    settled = asyncio.Event()

    def on_message(kind: bytes, payload: bytes, fds: list[int]) -> None:
        nonlocal host
        if host is not None:
            host.acceptor_message(kind, payload, fds)
            return
        assert kind == joint.SETTINGS, "the settings come first"
        settings = msgspec.json.decode(payload, type=joint.ProcessorSettings)
        configure_logging(f"gateway/{settings.index}", settings.properties.log_level, settings.properties.log_format)
        host = ProcessorHost(settings, acceptor)
        settled.set()

    acceptor = parent_socket(on_message, stopped.set)
    await settled.wait()
    assert host is not None
    links = asyncio.ensure_future(host.links.run())
    drained = asyncio.ensure_future(host.drained.wait())
    gone = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([links, drained, gone], return_when=asyncio.FIRST_COMPLETED)
    for task in (links, drained, gone):
        task.cancel()
    outcomes = await asyncio.gather(links, drained, gone, return_exceptions=True)
    host.close()
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
