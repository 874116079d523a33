"""A Kubernetes cluster to try the chart on, and the commands that reach it.

- `K8S_NODE` names a tool that runs a node of its own on this machine: `up`, `base TAG`, `load IMAGE…` and
  `exec COMMAND…`, which runs kubectl, helm, docker and Kafka clients where they reach it. Without it, one beside the
  checkout is looked for.
- Else `KUBECONFIG` is an existing cluster. It pulls images that have been pushed, `IMAGE_REGISTRY` with the tag `e2e`,
  has a default StorageClass, and a node that is reached from here at `NODE_ADDRESS`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BESIDE = ROOT.parent / "shared/k8s-node/k8s-node"
BASE = "local/python:bookworm"
NODE_ADDRESS = "10.89.0.1"
API_SERVER = "https://127.0.0.1:16443"
"""That of a node of its own."""


class NoCluster(Exception):  # noqa: N818  (the reason why nothing is tried)
    """One line that says what is missing."""


class CommandFailed(AssertionError):  # noqa: N818  (an outcome: the command said no)
    """What a command wrote to its standard error."""


@dataclass(slots=True)
class Cluster:
    node_tool: Path | None
    """None: an existing cluster."""
    address: str
    registry: str

    @property
    def prefix(self) -> list[str]:
        """In front of whatever has to reach the cluster."""
        return [str(self.node_tool), "exec"] if self.node_tool is not None else []

    def run(self, *command: str, text: str | None = None, timeout_s: float = 600) -> str:
        """The standard output. Raises CommandFailed."""
        command_line = [*self.prefix, *command]
        # What a server answers to openssl is in the output, and need not be text.
        done = subprocess.run(
            command_line,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            cwd=ROOT,
        )
        if done.returncode:
            raise CommandFailed(f"{' '.join(command[:4])} …: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def refused(self, *command: str, text: str | None = None, timeout_s: float = 600) -> str:
        """What it says against it. Raises AssertionError when it does it."""
        try:
            self.run(*command, text=text, timeout_s=timeout_s)
        except CommandFailed as refusal:
            return str(refusal)
        raise AssertionError(f"it was done: {' '.join(command)}")

    def get(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        command = ["kubectl", "--namespace", namespace, "get", kind, "--output", "json"]
        found: list[dict[str, Any]] = json.loads(self.run(*command, *(["--selector", selector] if selector else [])))[
            "items"
        ]
        return found

    def apply(self, *objects: dict[str, Any]) -> None:
        self.run(
            "kubectl",
            "apply",
            "--filename",
            "-",
            text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )

    def python(self, module: str, *arguments: str, timeout_s: float = 600) -> str:
        """`python -m module` where it reaches the cluster."""
        return self.run(str(ROOT / ".venv/bin/python"), "-m", module, *arguments, timeout_s=timeout_s)


@contextmanager
def reachable_api_server(cluster: Cluster) -> Generator[None]:
    """A node of its own has its API server on the loopback address, where no pod reaches it; jobs have to."""
    if cluster.node_tool is None:
        yield
        return
    port = API_SERVER.rpartition(":")[2]
    relay = ["socat", f"TCP-LISTEN:{port},bind={cluster.address},fork,reuseaddr", f"TCP:127.0.0.1:{port}"]
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "barnabas-trial",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [cluster.address]}],
        "ports": [{"name": "https", "port": int(port)}],
    }
    with subprocess.Popen([*cluster.prefix, *relay], start_new_session=True) as process:
        try:
            cluster.apply(endpoints)
            yield
        finally:
            cluster.run("kubectl", "--namespace", "default", "delete", "endpointslice", "barnabas-trial")
            os.killpg(process.pid, signal.SIGTERM)


def find_cluster() -> Cluster:
    """Raises NoCluster."""
    named = os.environ.get("K8S_NODE")
    tool = Path(named) if named else BESIDE
    if tool.is_file():
        return _node(tool)
    if named:
        raise NoCluster(f"K8S_NODE={named} is no file")
    if "KUBECONFIG" not in os.environ:
        raise NoCluster("no Kubernetes: set K8S_NODE to a node tool, or KUBECONFIG to an existing cluster's")
    missing = [name for name in ("kubectl", "helm") if shutil.which(name) is None]
    if missing:
        raise NoCluster(f"{' and '.join(missing)} not on PATH")
    if "NODE_ADDRESS" not in os.environ:
        raise NoCluster("NODE_ADDRESS is not set: the address of a node, where node ports are reached from here")
    return Cluster(None, os.environ["NODE_ADDRESS"], os.environ.get("IMAGE_REGISTRY", ""))


def _node(tool: Path) -> Cluster:
    cluster = Cluster(tool, NODE_ADDRESS, "docker.io/local")
    if subprocess.run([tool, "exec", "kubectl", "get", "nodes"], capture_output=True).returncode:
        started = subprocess.run([tool, "up"], capture_output=True, text=True)
        if started.returncode:
            raise NoCluster(f"{tool.name} up failed; has `{tool.name} build` been run? {started.stderr.strip()[-200:]}")
    if not cluster.run("docker", "images", "--quiet", BASE).strip():
        subprocess.run([tool, "base", BASE], check=True, capture_output=True)
    return cluster


def wait_until(what: str, holds: Callable[[], bool], timeout_s: float = 180, pause_s: float = 0.5) -> float:
    """Seconds until it held. Raises AssertionError."""
    started_s = time.monotonic()
    while not holds():
        if time.monotonic() - started_s > timeout_s:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(pause_s)
    return time.monotonic() - started_s


def in_words(items: Sequence[object]) -> str:
    return ", ".join(map(str, items)) or "none"
