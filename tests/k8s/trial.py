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
NODE_PORT = 32092
TAG = "e2e"
VOLUMES = 9


def small(memory: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": memory}}}


@dataclass
class Trial:
    cluster: Cluster
    namespace: str = "barnabas-e2e"
    release: str = "y"
    """Unquoted, YAML takes it for a boolean."""
    volumes: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="barnabas-e2e-")))
    overrides: dict[str, str] = field(default_factory=dict)
    """What has been upgraded to until now, as `--set` has it."""
    listeners: dict[str, Any] = field(default_factory=dict)
    """Values in the place of `externalAccess`: what the step `secure` upgrades to."""
    secrets: dict[str, Path] = field(default_factory=dict)
    """The directories with the content of Secrets, by their names."""

    @property
    def name(self) -> str:
        """What the names of the release's objects begin with."""
        return self.release if self.release.startswith("barnabas") else f"barnabas-{self.release}"

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
        return [
            "helm",
            verb,
            self.release,
            CHART,
            "--namespace",
            self.namespace,
            "--values",
            str(path),
            *pairs,
            *options,
        ]

    def install(self) -> None:
        self.cluster.run(*self._helm("install", "--wait", "--timeout", "5m"))

    def upgrade(self, **sets: str) -> None:
        self.cluster.run(*self._helm("upgrade", "--wait", "--timeout", "8m", **sets))
        self.overrides |= sets

    def refused_upgrade(self, *options: str, **sets: str) -> str:
        return self.cluster.refused(*self._helm("upgrade", *options, **sets))

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return self.cluster.run("kubectl", "--namespace", self.namespace, *arguments, text=text)

    def pods(self, role: str = "") -> dict[str, dict[str, Any]]:
        component = "app.kubernetes.io/component"
        selector = f"app.kubernetes.io/instance={self.release}," + (
            f"{component}={role}" if role else f"{component} notin (certificates,access)"
        )
        return {pod["metadata"]["name"]: pod for pod in self.cluster.get("pods", self.namespace, selector)}

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
        given = [addresses, method, json.dumps(request), str(self.certificate_of("admin")), f"{self.name}-controller"]
        answer: dict[str, Any] = json.loads(self.cluster.python("tests.k8s.operations", *given))
        return answer

    def certificate_of(self, operator: str) -> Path:
        """A directory with the certificate that the chart has generated for this role."""
        return self.write_secret(f"{self.name}-operator-{operator}")

    def write_secret(self, name: str) -> Path:
        """A directory with its content, as it was when it was written first."""
        if name not in self.secrets:
            directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.volumes))
            for key, content in self.secret(name).items():
                (directory / key).write_bytes(content)
            self.secrets[name] = directory
        return self.secrets[name]

    def secret(self, name: str) -> dict[str, bytes]:
        data = json.loads(self.kubectl("get", "secret", name, "--output", "json"))["data"]
        return {key: b64decode(text) for key, text in data.items()}

    def barnabas(self, *arguments: str) -> str:
        """The command line, as the image has it and a controller's pod knows where to ask."""
        return self.kubectl("exec", f"deployment/{self.name}-controller", "--", "barnabas", *arguments)

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

    def make_volumes(self, size: str = "1Gi") -> None:
        """A node of its own has no provisioner: local volumes, made by hand."""
        for number in range(VOLUMES) if self.cluster.node_tool is not None else ():
            self.make_volume(f"{self.namespace}-{number}", size)

    def make_volume(self, name: str, size: str) -> None:
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.volumes))
        path.chmod(0o777)
        (node,) = [each["metadata"]["name"] for each in self.cluster.get("nodes", self.namespace)]
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        labels = {"barnabas-e2e": self.namespace}
        metadata = {"name": name, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})

    def directory_of(self, volume: str) -> Path:
        (found,) = [
            each for each in self.cluster.get("persistentvolumes", self.namespace) if each["metadata"]["name"] == volume
        ]
        return Path(found["spec"]["local"]["path"])

    def create_namespace(self, level: str = "restricted") -> None:
        """An empty one, with volumes; it admits pods of this Pod Security Standard."""
        self.clean_up()
        labels = {"pod-security.kubernetes.io/enforce": level}
        metadata = {"name": self.namespace, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.make_volumes()

    def clean_up(self) -> None:
        """Remove whatever is left, also of a run before."""
        delete = ["kubectl", "delete"]
        self.cluster.run(*delete, "namespace", self.namespace, "--ignore-not-found", "--wait", "--timeout=180s")
        self.cluster.run(*delete, "persistentvolume", "--selector", f"barnabas-e2e={self.namespace}", "--wait=false")
        self.secrets.clear()


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
