"""One release on one cluster, and what the steps do with it."""

from __future__ import annotations

import json
import tempfile
import threading
from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.k8s.cluster import ROOT, Cluster, CommandFailed, wait_until
from tests.k8s.images import ETCD_TAG
from tests.k8s.load_process import Report, running_load

CHART = str(ROOT / "deploy/k8s/chart")
NAMESPACE = "barnabas-e2e"
RELEASE = "y"
"""Unquoted, YAML takes it for a boolean."""
NAME = f"barnabas-{RELEASE}"
NODE_PORT = 32092
TAG = "e2e"
VOLUMES = 8


def small(memory: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": memory}}}


@dataclass
class Trial:
    cluster: Cluster
    volumes: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="barnabas-e2e-")))
    overrides: dict[str, str] = field(default_factory=dict)
    """What has been upgraded to until now, as `--set` has it."""
    listeners: dict[str, Any] = field(default_factory=dict)
    """Values in the place of `externalAccess`: what the step `secure` upgrades to."""

    @property
    def bootstrap(self) -> str:
        return f"{self.cluster.address}:{NODE_PORT}"

    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "image": {"registry": self.cluster.registry, "tag": TAG, "pullPolicy": "Never"},
            "gateway": {"processors": 1, "drainSeconds": 3, **small("1Gi")},
            "logstore": {"persistence": {"size": "1Gi"}, **small("1Gi")},
            "purgatory": small("512Mi"),
            "controller": small("512Mi"),
            "etcd": {
                "bundled": {
                    "image": f"{self.cluster.registry}/etcd:{ETCD_TAG}",
                    "persistence": {"size": "1Gi"},
                    **small("512Mi"),
                }
            },
            "externalAccess": {
                "enabled": True,
                "trustedNetwork": True,
                "host": self.cluster.address,
                "nodePort": NODE_PORT,
            },
        }
        if self.listeners:
            del values["externalAccess"]
            values |= self.listeners
        if self.cluster.node_tool is None:
            values["image"]["pullPolicy"] = "IfNotPresent"
            del values["etcd"]["bundled"]["image"]
        return values

    # --- helm and kubectl ---

    def _helm(self, verb: str, *options: str, **sets: str) -> list[str]:
        path = self.volumes / "values.json"
        path.write_text(json.dumps(self.values()))
        pairs = [option for key, value in {**self.overrides, **sets}.items() for option in ("--set", f"{key}={value}")]
        return ["helm", verb, RELEASE, CHART, "--namespace", NAMESPACE, "--values", str(path), *pairs, *options]

    def install(self) -> None:
        self.cluster.run(*self._helm("install", "--wait", "--timeout", "5m"))

    def upgrade(self, **sets: str) -> None:
        self.cluster.run(*self._helm("upgrade", "--wait", "--timeout", "8m", **sets))
        self.overrides |= sets

    def refused_upgrade(self, *options: str, **sets: str) -> str:
        return self.cluster.refused(*self._helm("upgrade", *options, **sets))

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return self.cluster.run("kubectl", "--namespace", NAMESPACE, *arguments, text=text)

    def pods(self, role: str = "") -> dict[str, dict[str, Any]]:
        component = "app.kubernetes.io/component"
        selector = f"app.kubernetes.io/instance={RELEASE}," + (
            f"{component}={role}" if role else f"{component} notin (certificates,access)"
        )
        return {pod["metadata"]["name"]: pod for pod in self.cluster.get("pods", NAMESPACE, selector)}

    def ready(self, role: str = "") -> list[str]:
        return [name for name, pod in self.pods(role).items() if is_ready(pod)]

    def wait_ready(self, timeout_s: float = 240) -> float:
        """Seconds until all pods are."""
        return wait_until("every pod ready", lambda: len(self.ready()) == len(self.pods()) > 0, timeout_s)

    # --- Barnabas ---

    def ask(self, method: str, **request: Any) -> dict[str, Any]:
        """A call of the ops API; another controller may be about to take over."""
        addresses = ",".join(
            f"{pod['status']['podIP']}:9090" for pod in self.pods("controller").values() if is_ready(pod)
        )
        given = [addresses, method, json.dumps(request), str(self.certificate_of("admin")), f"{NAME}-controller"]
        answer: dict[str, Any] = json.loads(self.cluster.python("tests.k8s.operations", *given))
        return answer

    def certificate_of(self, operator: str) -> Path:
        """A directory with the certificate that the chart has generated for this role."""
        return self.write_secret(f"{NAME}-operator-{operator}")

    def write_secret(self, name: str) -> Path:
        """A directory with its content, as it was when it was written first."""
        directory = self.volumes / name
        if not directory.is_dir():
            directory.mkdir()
            for key, content in self.secret(name).items():
                (directory / key).write_bytes(content)
        return directory

    def secret(self, name: str) -> dict[str, bytes]:
        data = json.loads(self.kubectl("get", "secret", name, "--output", "json"))["data"]
        return {key: b64decode(text) for key, text in data.items()}

    def barnabas(self, *arguments: str) -> str:
        """The command line, as the image has it and a controller's pod knows where to ask."""
        return self.kubectl("exec", f"deployment/{NAME}-controller", "--", "barnabas", *arguments)

    def create_topic(self, topic: str, partitions: int = 6) -> None:
        self.ask("CreateTopic", topic=topic, partitions=partitions, replicationFactor=3)

    def partitions_with(self, node_id: int) -> int:
        """Replicas on this logstore."""
        topics = [each["topic"] for each in self.ask("ListTopics").get("topics", [])]
        described = [self.ask("DescribeTopic", topic=topic)["topic"]["partitions"] for topic in topics]
        return sum(node_id in each.get("replicas", []) for partitions in described for each in partitions)

    @contextmanager
    def load(self, topic: str) -> Generator[list[Report]]:
        """Clients that never stop while the block runs; its one report is there afterwards."""
        self.create_topic(topic)
        with running_load(self.bootstrap, topic, self.cluster.prefix) as reports:
            yield reports

    @contextmanager
    def watched(self, role: str) -> Generator[list[int]]:
        """How many pods of a role were ready, every half second."""
        samples: list[int] = []
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.5):
                try:
                    samples.append(len(self.ready(role)))
                except CommandFailed:
                    continue

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield samples
        finally:
            over.set()
            thread.join()

    # --- volumes ---

    def make_volumes(self) -> None:
        """A node of its own has no provisioner: local volumes, made by hand."""
        for number in range(VOLUMES) if self.cluster.node_tool is not None else ():
            self.make_volume(f"{NAMESPACE}-{number}")

    def make_volume(self, name: str) -> None:
        path = self.volumes / name
        path.mkdir()
        path.chmod(0o777)
        (node,) = [each["metadata"]["name"] for each in self.cluster.get("nodes", NAMESPACE)]
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        labels = {"barnabas-e2e": "volume"}
        metadata = {"name": name, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})

    def directory_of(self, volume: str) -> Path:
        (found,) = [
            each for each in self.cluster.get("persistentvolumes", NAMESPACE) if each["metadata"]["name"] == volume
        ]
        return Path(found["spec"]["local"]["path"])

    def clean_up(self) -> None:
        """Whatever is left, also of a run before."""
        self.cluster.run("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait", "--timeout=180s")
        self.cluster.run("kubectl", "delete", "persistentvolume", "--selector", "barnabas-e2e=volume", "--wait=false")


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
