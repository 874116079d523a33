"""`python -m barnabas_logstore --config FILE`: one logstore."""

from __future__ import annotations

import asyncio
import sys

import barnabas.runtime.code_loading  # noqa: F401 - before what it is for
from barnabas.runtime.allocator import keep_large_buffers
from barnabas.runtime.cluster_version import VersionRefused
from barnabas.runtime.configuration.config import load_config
from barnabas.runtime.logs import configure_logging
from barnabas.runtime.processes.forking import fork_ahead
from barnabas.runtime.processes.spawning import run_until_signal
from barnabas.runtime.registration import IdentityTaken
from barnabas_logstore import control
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_logstore.shell.control_process import CONTROL_MODULE
from barnabas_logstore.shell.driver import DirectoriesLost
from barnabas_logstore.shell.log_dirs import StartRefused
from barnabas_logstore.shell.node import LogstoreNode

PROGRAM = "barnabas-logstore"


def main() -> None:
    loaded = load_config(LogstoreSettings, sys.argv[1:], program=PROGRAM)
    levels = configure_logging("logstore", loaded.config.log_level, loaded.config.log_format)
    loaded.log_start()
    fork_ahead(CONTROL_MODULE, control.main, 1)
    keep_large_buffers()

    async def serve(stopping: asyncio.Event) -> None:
        await LogstoreNode(loaded, levels).run(stopping)

    refusal: Exception | None = None
    try:
        run_until_signal(serve)
    except* (StartRefused, IdentityTaken, VersionRefused, DirectoriesLost, OSError) as refused:
        refusal = refused.exceptions[0]
    # Not in the clause: before Python 3.11.4 what is raised there is shown as a group, with its traceback.
    if refusal is not None:
        sys.exit(f"{PROGRAM}: {refusal}")


if __name__ == "__main__":
    main()
