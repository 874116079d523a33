"""A rolling upgrade, and the way back, while idempotent producers write and a group of ten reads and commits.

    python -m tests.mixed_versions --short

All services are started with the code of the last release (`RELEASES`), taken out of this checkout's history. Then each
is stopped and started again with the present code, kind by kind in the order that docs/operate/upgrade.md gives; then
each goes back, in the opposite order. Between two of them everything has to be in sync again and the group to have gone
on: every mixture on the way serves. No record may be lost, doubled, skipped or out of order. Exit code
0 when it is so, 77 where the history is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.checkouts import environment_of, import_path, module_of
from tests.faults.cluster import FaultCluster
from tests.faults.machines import CONTROLLERS, GATEWAYS, LOGSTORES, PURGATORIES, role_of
from tests.faults.rolling_groups import RollingGroups

ORDER = (*LOGSTORES, *PURGATORIES, *CONTROLLERS, *GATEWAYS)
"""Who is asked comes before who asks."""
ONE_OF_EACH = (LOGSTORES[0], PURGATORIES[0], CONTROLLERS[0], GATEWAYS[0])


class MixedCluster(FaultCluster):
    """`of_last_release` are the services that are started with the code in `tree`; the others have the present one."""

    def __init__(self, tree: Path, of_last_release: Sequence[str]) -> None:
        super().__init__()
        self._tree = tree
        self.of_last_release = set(of_last_release)

    def spawn(self, service: str, environment: dict[str, str] | None = None) -> None:
        chosen = environment_of(self._tree) if service in self.of_last_release else {}
        super().spawn(service, {**chosen, **(environment or {})})

    def properties(self, service: str) -> dict[str, str]:
        """Return what the service's version knows: a controller of 0.1.0 has operators at its only port."""
        present = super().properties(service)
        if service not in self.of_last_release:
            return present
        operations = present.pop("operations.listeners", None)
        present.pop("operations.authentication", None)
        return present if operations is None else {**present, "listeners": operations}

    def command(self, service: str, config_path: Path) -> list[str]:
        present = super().command(service, config_path)
        if service not in self.of_last_release:
            return present
        interpreter, option, _, *arguments = present
        return [interpreter, option, module_of(self._tree, role_of(service)), *arguments]

    def other_version(self, service: str) -> None:
        """From its next start on."""
        self.of_last_release ^= {service}

    def version_of(self, service: str) -> str:
        return "the last release" if service in self.of_last_release else "the present version"

    def check_code(self, service: str) -> None:
        """Raises AssertionError: a process of the service, or one of its children, runs the other code."""
        for pid in self.processes(service):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            runs_old = f"PYTHONPATH={import_path(self._tree)}".encode() in variables
            assert runs_old == (service in self.of_last_release), f"{service}, process {pid}, runs the other version"


def found_in(tree: Path, module: str) -> Path:
    """Where a process of the tree's version finds a module."""
    command = [sys.executable, "-c", f"import {module}; print({module}.__file__)"]
    environment = {**os.environ, **environment_of(tree)}
    return Path(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())


class RollingUpgrade(RollingGroups):
    """Every restart is one to the other version."""

    def __init__(self, cluster: MixedCluster, directory: Path, seed: int) -> None:
        super().__init__(cluster, directory, seed, kills=False, say=_say)
        self._mixed = cluster

    def _end(self, service: str) -> None:
        self._mixed.check_code(service)
        super()._end(service)
        self._mixed.other_version(service)
        _say(f"{service}: {self._mixed.version_of(service)}")


def _say(line: str) -> None:
    print(line, flush=True)
