"""`python -m barnabas_gateway --config FILE`: one gateway, wired together."""

from __future__ import annotations

import asyncio
import signal
import sys

import barnabas.runtime.code_loading  # noqa: F401 - before what it is for
from barnabas.runtime.cluster_version import VersionRefused
from barnabas.runtime.configuration.config import load_config
from barnabas.runtime.logs import configure_logging, get_logger
from barnabas.runtime.processes.forking import fork_ahead
from barnabas.runtime.processes.spawning import run_until_signal
from barnabas.runtime.registration import IdentityTaken
from barnabas_gateway import processor
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.gateway import Gateway
from barnabas_gateway.shell.processors import PROCESSOR_MODULE
from barnabas_gateway.shell.tls.key_stores import StoreError

PROGRAM = "barnabas-gateway"

_log = get_logger("gateway")


def main() -> None:
    loaded = load_config(GatewayProperties, sys.argv[1:], program=PROGRAM)
    configure_logging("gateway", loaded.config.log_level, loaded.config.log_format)
    loaded.log_start()
    fork_ahead(PROCESSOR_MODULE, processor.main, loaded.config.num_network_threads)

    async def serve(stopping: asyncio.Event) -> None:
        gateway = Gateway(loaded)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, gateway)
        await gateway.run(stopping)

    refusal: Exception | None = None
    try:
        run_until_signal(serve)
    except* (IdentityTaken, VersionRefused, OSError, StoreError) as refused:
        refusal = refused.exceptions[0]
    # Not in the clause: before Python 3.11.4 what is raised there is shown as a group, with its traceback.
    if refusal is not None:
        sys.exit(f"{PROGRAM}: {refusal}")


def _reload(gateway: Gateway) -> None:
    """On SIGHUP, read the number of processors and the limits of connections again; errors change nothing."""
    try:
        loaded = load_config(GatewayProperties, sys.argv[1:], program=PROGRAM)
    except SystemExit:
        _log.error("the configuration is not valid: nothing was changed")
        return
    gateway.reload(loaded.config)


if __name__ == "__main__":
    main()
