"""`python -m barnabas_gateway --config FILE`: one gateway, wired together."""

from __future__ import annotations

import asyncio
import signal
import sys

from barnabas.runtime.cluster_version import VersionRefused
from barnabas.runtime.config import load_config
from barnabas.runtime.logs import configure_logging, get_logger
from barnabas.runtime.processes import run_until_signal
from barnabas.runtime.registration import IdentityTaken
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.gateway import Gateway

PROGRAM = "barnabas-gateway"

_log = get_logger("gateway")


def main() -> None:
    loaded = load_config(GatewayProperties, sys.argv[1:], program=PROGRAM)
    configure_logging("gateway", loaded.config.log_level, loaded.config.log_format)
    loaded.log_notices()

    async def serve(stopping: asyncio.Event) -> None:
        gateway = Gateway(loaded)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, gateway)
        await gateway.run(stopping)

    try:
        run_until_signal(serve)
    except* (IdentityTaken, VersionRefused, OSError) as refused:
        sys.exit(f"{PROGRAM}: {refused.exceptions[0]}")


def _reload(gateway: Gateway) -> None:
    """SIGHUP: the number of processors and the limits of connections are read again; errors change nothing."""
    try:
        loaded = load_config(GatewayProperties, sys.argv[1:], program=PROGRAM)
    except SystemExit:
        _log.error("the configuration is not valid: nothing was changed")
        return
    gateway.reload(loaded.config)


if __name__ == "__main__":
    main()
