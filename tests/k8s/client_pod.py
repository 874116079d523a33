"""A pod with the command line, beside the release: a client inside Kubernetes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.k8s.trial import Trial

POD = "client"


@dataclass(slots=True)
class Client:
    trial: Trial

    def round_trip(self, topic: str, records: int, record_bytes: int) -> str:
        """Produce to a new topic and consume all of it; return what came back. Raises AssertionError."""
        bootstrap = f"{self.trial.name}-gateway.{self.trial.namespace}.svc:9092"
        self.trial.create_topic(topic)
        lines = f"yes {'x' * record_bytes} | head -n {records}"
        self._run(f"{lines} | barnabas produce {topic} --bootstrap {bootstrap}")
        counted = self._run(f"barnabas consume {topic} --bootstrap {bootstrap} --exit | wc -lc").split()
        expected = [str(records), str(records * (record_bytes + 1))]
        assert counted == expected, (counted, expected)
        return f"{records} records of {record_bytes} bytes produced with acks=all and consumed"

    def _run(self, command: str) -> str:
        return self.trial.kubectl("exec", POD, "--", "sh", "-c", command)


@contextmanager
def client_pod(trial: Trial, image: str = "") -> Generator[Client]:
    """`image`: that of the controllers by default."""
    if not image:
        image = next(iter(trial.pods("controller").values()))["spec"]["containers"][0]["image"]
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": POD, "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "infinity"]}
    user = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {
        "securityContext": user,
        "terminationGracePeriodSeconds": 0,
        "containers": [container | {"securityContext": confined}],
    }
    metadata = {"name": POD, "namespace": trial.namespace}
    trial.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    trial.kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=120s")
    yield Client(trial)
    trial.kubectl("delete", "pod", POD)
