"""A namespace with a small broker, a volume for tables, and jobs in it."""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import yaml
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.k8s.cluster import API_SERVER, ROOT, Cluster, CommandFailed, wait_until
from tests.k8s.images import ETCD_TAG
from tests.k8s.trial import CHART
from tests.pipeline_k8s.producing import PARTITIONS

NAMESPACE = "barnabas-pipeline-e2e"
NODE_PORT = 32392
BROKER_TAG = "pipeline-e2e"
KUBERNETES = ROOT / "deploy/pipeline/kubernetes"
PYTHON = str(ROOT / ".venv-pipeline/bin/python")
"""Of a node of one's own, from beside it."""
# The node has two cores: pods ask for little, and take what there is.
SMALL = {"spark.kubernetes.driver.request.cores": "200m", "spark.kubernetes.executor.request.cores": "200m"}


@dataclass
class Trial:
    cluster: Cluster
    image: str
    volumes: Path = Path(tempfile.gettempdir(), NAMESPACE)
    produced: dict[str, int] = field(default_factory=dict)
    """Records by topic."""

    @property
    def tables(self) -> Path:
        """What pods see as /tables."""
        return self.volumes / "tables"

    @property
    def bootstrap(self) -> str:
        return f"{self.cluster.address}:{NODE_PORT}"

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return self.cluster.run("kubectl", "--namespace", NAMESPACE, *arguments, text=text)

    # --- what jobs stand on ---

    def install(self) -> None:
        """A namespace that admits nothing but confined pods, volumes, the broker, and what a driver may do."""
        self.volumes.mkdir()
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        self._keep_image()
        for name in ("logstore", "etcd", "tables"):
            self._make_volume(name)
        self._install_broker()
        self.kubectl(
            "apply", "--filename", str(KUBERNETES / "rbac.yaml"), "--filename", str(KUBERNETES / "tables.yaml")
        )

    def _keep_image(self) -> None:
        """On a disk that is over 85 % full the kubelet takes away images that nothing runs from."""
        pod = yaml.safe_load((KUBERNETES / "pod.yaml").read_text())
        pod["metadata"] = {"name": "image", "namespace": NAMESPACE}
        (container,) = pod["spec"]["containers"]
        container |= {"image": self.image, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
        del container["volumeMounts"], pod["spec"]["volumes"]
        self.cluster.apply(pod)

    def _install_broker(self) -> None:
        """By the chart, one of everything."""
        storage = {"persistence": {"size": "1Gi", "storageClassName": "broker"}}
        values = {
            "image": {"registry": self.cluster.registry, "tag": BROKER_TAG, "pullPolicy": "Never"},
            "logstore": storage,
            "etcd": {"bundled": {"image": f"{self.cluster.registry}/etcd:{ETCD_TAG}", **storage}},
            "externalAccess": {
                "enabled": True,
                "trustedNetwork": True,
                "host": self.cluster.address,
                "nodePort": NODE_PORT,
            },
        }
        path = self.volumes / "values.json"
        path.write_text(json.dumps(values))
        files = ["--values", f"{CHART}/examples/trial.yaml", "--values", str(path)]
        where = ["--namespace", NAMESPACE, *files, "--wait", "--timeout", "5m"]
        self.cluster.run("helm", "install", "barnabas", CHART, *where)

    def _make_volume(self, name: str) -> None:
        path = self.volumes / name
        path.mkdir()
        path.chmod(0o777)
        (node,) = [each["metadata"]["name"] for each in self.cluster.get("nodes", NAMESPACE)]
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec: dict[str, Any] = {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteMany" if name == "tables" else "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        if name != "tables":
            spec["storageClassName"] = "broker"
        metadata = {"name": f"{NAMESPACE}-{name}", "labels": {NAMESPACE: "volume"}}
        self.cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})

    def clean_up(self) -> None:
        """Whatever is left, also of a run before."""
        self.cluster.run("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait", "--timeout=180s")
        self.cluster.run("kubectl", "delete", "persistentvolume", "--selector", f"{NAMESPACE}=volume", "--wait=false")
        shutil.rmtree(self.volumes, ignore_errors=True)

    # --- records and tables ---

    def produce(self, topic: str, count: int, rate: float = 0.0) -> None:
        first = self.produced.get(topic, 0)
        given = [self.bootstrap, topic, str(first), str(count), str(rate)]
        self.cluster.run(PYTHON, "-m", "tests.pipeline_k8s.producing", *given, timeout_s=900)
        self.produced[topic] = first + count

    def rows(self, table: str) -> int:
        try:
            return int(DeltaTable(str(self.tables / table)).count())
        except TableNotFoundError:
            return 0

    def judge(self, topic: str) -> str:
        """Every record of the topic once in its table, by delta-rs. Raises AssertionError."""
        rows = DeltaTable(str(self.tables / topic)).to_pyarrow_table(columns=["partition", "offset", "value"])
        identity = pc.add(pc.multiply(rows["offset"], PARTITIONS), rows["partition"])
        values = pc.cast(pc.cast(rows["value"], pa.string()), pa.int64())
        right = pc.sum(pc.cast(pc.equal(identity, values), pa.int64())).as_py() or 0
        distinct = pc.count_distinct(identity).as_py()
        reported = f"{self.produced[topic]:,} records, {rows.num_rows:,} rows, {distinct:,} distinct, {right:,} right"
        assert {rows.num_rows, distinct, right} == {self.produced[topic]}, reported
        return f"by delta-rs: {reported}: every record once"

    # --- pods ---

    def pods(self, selector: str) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in self.cluster.get("pods", NAMESPACE, selector)}

    def running(self, selector: str) -> list[str]:
        return [name for name, pod in self.pods(selector).items() if pod["status"].get("phase") == "Running"]

    def kill(self, pod: str) -> None:
        """As a node that is lost: no signal that anything could heed."""
        self.kubectl("delete", "pod", pod, "--grace-period=0", "--force")

    def log_of(self, pod: str, lines: int = 40) -> str:
        try:
            return self.kubectl("logs", pod, f"--tail={lines}")
        except CommandFailed as reason:
            return str(reason)

    # --- the files of deploy/pipeline/kubernetes, for this node ---

    def properties(self, **more: str) -> str:
        """spark.properties with the trial's image and its small requests."""
        text = (KUBERNETES / "spark.properties").read_text()
        released = f"barnabas-pipeline:{version()}"
        assert text.count(released) == 1
        extra = {"spark.kubernetes.container.image.pullPolicy": "Never", **SMALL, **more}
        return text.replace(released, self.image) + "".join(f"{key} {value}\n" for key, value in extra.items())

    def job(self, name: str, topic: str, **more: Any) -> str:
        """job.yaml for another topic."""
        job = yaml.safe_load((KUBERNETES / "job.yaml").read_text())
        job |= {"name": name, "topics": [topic], "metrics_file": f"/tables/{name}-metrics.json", **more}
        return str(yaml.safe_dump(job))

    def metrics(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.tables / f"{name}-metrics.json").read_text())
        return found

    def submit(self, name: str, properties: str) -> None:
        """`spark-submit --deploy-mode cluster` with the rights of the driver itself, by a token."""
        path = self.volumes / "spark.properties"
        path.write_text(properties)
        authority = self.volumes / "ca.crt"
        authority.write_text(
            self.kubectl("get", "configmap", "kube-root-ca.crt", "--output", r"jsonpath={.data.ca\.crt}")
        )
        submission = "spark.kubernetes.authenticate.submission"
        template = str(KUBERNETES / "pod.yaml")
        command = [str(Path(pyspark.__file__).parent / "bin/spark-submit"), "--master", f"k8s://{API_SERVER}"]
        command += ["--deploy-mode", "cluster", "--name", name, "--properties-file", str(path)]
        for key, value in {
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.driver.pod.name": name,
            "spark.kubernetes.driver.podTemplateFile": template,
            "spark.kubernetes.executor.podTemplateFile": template,
            "spark.kubernetes.submission.waitAppCompletion": "false",
            f"{submission}.caCertFile": str(authority),
            f"{submission}.oauthToken": self.kubectl("create", "token", "spark").strip(),
        }.items():
            command += ["--conf", f"{key}={value}"]
        program = ["local:///opt/barnabas-pipeline.py", "tables", "--job", "/etc/barnabas/job.yaml"]
        # Spark's client would read an administrator's kubeconfig first, and can't read an elliptic key in it.
        environment = [f"SPARK_HOME={Path(pyspark.__file__).parent}", "KUBECONFIG=/nonexistent"]
        self.cluster.run("env", *environment, *command, *program, timeout_s=300)

    def wait_for_rows(self, table: str, rows: int, timeout_s: float = 420) -> float:
        """Seconds until the table has so many. Raises AssertionError."""
        return wait_until(f"{rows} rows in {table}", lambda: self.rows(table) >= rows, timeout_s)

    def wait_for_end(self, pod: str, timeout_s: float = 600) -> str:
        """The phase it ended in."""
        ended = ("Succeeded", "Failed")
        wait_until(f"the end of {pod}", lambda: self.phase(pod) in ended, timeout_s, pause_s=1.0)
        return self.phase(pod)

    def phase(self, pod: str) -> str:
        return self.kubectl("get", "pod", pod, "--output", "jsonpath={.status.phase}")


def version() -> str:
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found
