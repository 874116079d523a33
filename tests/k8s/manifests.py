"""The step `manifests`: what `make manifests` renders, by kubectl alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.images.sources import ROLES
from tests.k8s.client_pod import client_pod
from tests.k8s.cluster import ROOT, in_words, wait_until
from tests.k8s.images import ETCD_TAG
from tests.k8s.secure import inside
from tests.k8s.trial import TAG, Trial

MANIFESTS = ROOT / "deploy/k8s/manifests"
IMAGES = "docker.io/library"
"""Where Kubernetes looks for an image without a registry in its name."""
LARGEST_VOLUME = "20Gi"
WORKLOADS = (
    "statefulset/barnabas-etcd",
    "statefulset/barnabas-logstore",
    "deployment/barnabas-controller",
    "deployment/barnabas-purgatory",
    "deployment/barnabas-gateway",
)


def manifests(trial: Trial) -> list[str]:
    """deploy/k8s/manifests by `kubectl apply` alone: the secure defaults, in the namespace barnabas."""
    if trial.cluster.node_tool is None:
        return ["not done: the manifests' images have no registry, so a node has to have them already"]
    load_images(trial)
    own = Trial(trial.cluster, namespace="barnabas", release="barnabas")
    own.clean_up()
    own.make_volumes(LARGEST_VOLUME)
    applied = own.cluster.run("kubectl", "apply", "--kustomize", str(overlay()))
    for workload in WORKLOADS:
        own.kubectl("rollout", "status", workload, "--timeout=300s")
    wait_until("every pod ready", lambda: len(own.ready()) == len(own.pods()) == 10)
    secrets = own.cluster.get("secrets", own.namespace, "app.kubernetes.io/managed-by=barnabas")
    enforced = own.cluster.run("kubectl", "get", "namespace", own.namespace, "--output", "json")
    assert json.loads(enforced)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    lines = [
        f"{len(applied.splitlines())} objects applied; {len(own.ready())} pods ready in a namespace that enforces the "
        "restricted standard; only requests of CPU and memory were made smaller, by a kustomization",
        f"the job has created {in_words([each['metadata']['name'] for each in secrets])}",
    ]
    with client_pod(own) as client:
        lines.append(f"a pod beside it: {client.round_trip('events', 1000, 1000)}")
    lines += inside(own)
    own.clean_up()
    return lines


def load_images(trial: Trial) -> None:
    """Give the node the images of `build` under the names that the manifests have."""
    assert trial.cluster.node_tool is not None
    version = next(line.split('"')[1] for line in (ROOT / "pyproject.toml").open() if line.startswith("version"))
    names = {f"barnabas-{role}:{TAG}": f"{IMAGES}/barnabas-{role}:{version}" for role in ROLES}
    names[f"etcd:{ETCD_TAG}"] = f"quay.io/coreos/etcd:{ETCD_TAG}"
    for built, name in names.items():
        trial.cluster.run("docker", "tag", f"{trial.cluster.registry}/{built}", name)
        subprocess.run([trial.cluster.node_tool, "load", name], check=True, capture_output=True)


def overlay() -> Path:
    """A kustomization of the manifests for a small node: every container asks for little."""
    directory = Path(tempfile.mkdtemp(prefix="barnabas-manifests-"))
    shutil.copytree(MANIFESTS, directory, dirs_exist_ok=True)
    resources = sorted(path.name for path in directory.glob("*.yaml"))
    little = [
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/resources/requests",
            "value": {"cpu": "50m", "memory": "64Mi"},
        }
    ]
    patches: list[dict[str, Any]] = [
        {"target": {"kind": kind}, "patch": json.dumps(little)} for kind in ("Deployment", "StatefulSet")
    ]
    (directory / "kustomization.yaml").write_text(json.dumps({"resources": resources, "patches": patches}))
    return directory
