"""deploy/k8s/recovery: the pods for back-ups and restores, which the chart's network policy lets reach etcd."""

from __future__ import annotations

import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scripts.kubernetes.chart import ROOT, container, find, render

RECOVERY = ROOT / "deploy/k8s/recovery"
KUBERNETES = ("1.28", "1.34", "1.37")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

Object = dict[str, Any]


def documents(name: str) -> list[Object]:
    return list(yaml.safe_load_all((RECOVERY / name).read_text()))


(RECOVERY_POD,) = documents("recovery.yaml")
(INSPECT_POD,) = documents("inspect.yaml")
CLAIM, CRON_JOB = documents("backup-cronjob.yaml")
BACKUP_POD: Object = CRON_JOB["spec"]["jobTemplate"]["spec"]["template"]
PODS = {"recovery": RECOVERY_POD, "inspect": INSPECT_POD, "backup": BACKUP_POD}


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_valid(version: str) -> None:
    for each in (RECOVERY_POD, INSPECT_POD, CLAIM, CRON_JOB):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS.keys())
def test_every_pod_is_confined(pod: Object) -> None:
    """A namespace that enforces the restricted Pod Security Standard takes it."""
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (only,) = spec["containers"]
    assert only["securityContext"] == container(render(), "controller")["securityContext"]
    assert only["image"].endswith(f":{VERSION}")


@pytest.mark.parametrize("pod", [RECOVERY_POD, BACKUP_POD], ids=["recovery", "backup"])
def test_the_network_policy_of_etcd_lets_it_through(pod: Object) -> None:
    """Regression: the restore of docs/operate/backup.md ran in a pod without labels, which etcd's policy kept away."""
    policy = find(render(), "NetworkPolicy", "barnabas-etcd")
    labels = pod["metadata"]["labels"]
    admitting = [
        rule
        for rule in policy["spec"]["ingress"]
        if {"protocol": "TCP", "port": 2379} in rule["ports"]
        and any(_selects(source["podSelector"], labels) for source in rule.get("from", []))
    ]
    assert len(admitting) == 1


def test_no_service_sends_anything_to_these_pods() -> None:
    for pod in PODS.values():
        labels = pod["metadata"].get("labels", {})
        for each in render():
            if each["kind"] == "Service":
                assert not _selects({"matchLabels": each["spec"]["selector"]}, labels)


def test_the_volume_is_the_one_of_the_logstore() -> None:
    """Regression: the page inspected /data, where the chart has no log directory."""
    objects = render()
    stateful_set = find(objects, "StatefulSet", "barnabas-logstore")
    (template,) = stateful_set["spec"]["volumeClaimTemplates"]
    (volume,) = INSPECT_POD["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == f"{template['metadata']['name']}-barnabas-logstore-0"
    (mount,) = INSPECT_POD["spec"]["containers"][0]["volumeMounts"]
    (of_the_logstore,) = [
        each for each in container(objects, "logstore")["volumeMounts"] if each["name"] == template["metadata"]["name"]
    ]
    assert mount["mountPath"] == of_the_logstore["mountPath"]
    properties = find(objects, "ConfigMap", "barnabas-logstore")["data"]["barnabas.properties"]
    (log_dirs,) = [line.partition("=")[2] for line in properties.splitlines() if line.startswith("log.dirs=")]
    assert f"barnabas inspect {log_dirs} >" in (ROOT / "docs/operate/backup.md").read_text()


def test_the_address_of_etcd_is_the_bundled_one() -> None:
    properties = find(render(), "ConfigMap", "barnabas-controller")["data"]["barnabas.properties"]
    (endpoints,) = [line for line in properties.splitlines() if line.startswith("etcd.endpoints=")]
    address = endpoints.partition("=")[2]
    (only,) = BACKUP_POD["spec"]["containers"]
    assert f"--etcd {address}\n" in only["command"][-1]
    assert f"--etcd {address} " in (ROOT / "docs/operate/backup.md").read_text()


@pytest.mark.parametrize("pod", [RECOVERY_POD, BACKUP_POD], ids=["recovery", "backup"])
def test_it_shows_etcd_the_certificate_of_a_client(pod: Object) -> None:
    (only,) = pod["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in only["env"]}
    of_the_controller = {each["name"]: each.get("value") for each in container(render(), "controller")["env"]}
    assert environment.items() <= of_the_controller.items()
    (secret,) = [each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each]
    template = find(render(), "Deployment", "barnabas-controller")["spec"]["template"]["spec"]
    assert secret in [each["secret"]["secretName"] for each in template["volumes"] if each["name"] == "etcd-tls"]


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        each["operator"] == "In" and labels.get(each["key"]) in each["values"]
        for each in selector.get("matchExpressions", [])
    )
