"""What the chart renders: valid in every shape, hardened, configured by keys that exist."""

from __future__ import annotations

import shutil
import subprocess

import helm_python
import kubernetes_validate
import msgspec
import pytest
import yaml

from barnabas.cluster.image import ClusterImage
from barnabas.runtime.configuration.config import load_config
from barnabas.runtime.rpc import LIVENESS
from barnabas_logstore.shell.node import IN_SYNC
from scripts.kubernetes.chart import (
    CHART,
    EXAMPLES,
    Values,
    container,
    example,
    find,
    job_templates,
    pod_templates,
    render,
)
from tests.unit.deploy.shapes import BALANCED, COMPONENT, MATRIX, MONITORED, NODE_PORTS, ROLES

pytestmark = pytest.mark.deep

KUBERNETES = ("1.28", "1.34", "1.37")
RELEASES = ("barnabas", "y", "1", "a-b", "null", "r" * 53)
MATCHES_BY_LABEL_KEYS = "1.31"
"""The Kubernetes from which on a pod's affinity may follow one of its own labels, as `colocated` does."""
# Of the operator's own: Kubernetes' schemas don't know them.
FOREIGN = ("monitoring.coreos.com/v1", "cert-manager.io/v1")
NO_KEYS = {"BARNABAS_CONTROLLER", "BARNABAS_LANE_DIRECTORY", "BARNABAS_OPERATOR_CONFIG"}
"""Where `barnabas` asks and by which certificate, in a pod that runs it; where the sockets of a node's pods are."""
PORTS = {"controller": 9401, "gateway": 9400, "logstore": 9401, "purgatory": 9401}
READINESS = {"controller": None, "gateway": None, "logstore": IN_SYNC, "purgatory": None}


def test_every_example_is_in_the_matrix() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} <= MATRIX.keys()


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_object_is_valid_in_every_kubernetes(values: Values) -> None:
    for each in render(values):
        if each["apiVersion"] not in FOREIGN:
            for version in KUBERNETES:
                if "matchLabelKeys" in str(each) and version < MATCHES_BY_LABEL_KEYS:
                    continue
                kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("values", [{}, NODE_PORTS, MONITORED], ids=["default", "node ports", "monitored"])
def test_a_release_may_be_called_anything(values: Values, release: str) -> None:
    objects = render(values, release)
    names = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)
    for each in objects:
        name = each["metadata"]["name"]
        assert isinstance(name, str)
        assert len(name) <= (52 if each["kind"] == "StatefulSet" else 63)
        assert not name[0].isdigit()
        assert all(isinstance(value, str) for value in each["metadata"]["labels"].values())
        selector = each.get("spec", {}).get("selector", {})
        assert all(isinstance(value, str) for value in selector.get("matchLabels", {}).values())


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_the_linter_has_nothing_to_say(values: Values) -> None:
    report = helm_python.lint(CHART, values, strict=True)
    assert [message for message in report["messages"] if message["severity"] > 1] == []
    assert not report["errors"]


@pytest.mark.parametrize("name", ["", *sorted(path.stem for path in EXAMPLES.glob("*.yaml"))])
def test_helm_itself_renders_what_the_engine_renders(name: str) -> None:
    """Another major version of Helm than the package's, where there is one."""
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("no helm on PATH")
    files = ["--values", str(EXAMPLES / f"{name}.yaml")] if name else []
    subprocess.run([helm, "lint", "--strict", str(CHART), *files], check=True, capture_output=True)
    reported = subprocess.run(
        [helm, "template", "y", str(CHART), "--namespace", "prod", *files], check=True, capture_output=True, text=True
    )
    rendered = [each for each in yaml.safe_load_all(reported.stdout) if each]
    expected = render(example(name) if name else {}, "y")
    assert sorted(map(identity, rendered)) == sorted(map(identity, expected))


def identity(each: object) -> bytes:
    return msgspec.json.encode(each, order="deterministic")


# --- what pods are ---


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_pod_is_confined(values: Values) -> None:
    objects = render(values)
    templates = pod_templates(objects)
    assert templates.keys() >= ROLES.keys()
    for template in (*templates.values(), *job_templates(objects)):
        spec = template["spec"]
        # Only jobs talk to Kubernetes, by accounts of their own; the one for etcd's users does not.
        talks = spec.get("restartPolicy") == "OnFailure" and template["metadata"]["labels"][COMPONENT] != "etcd-users"
        assert spec["automountServiceAccountToken"] is talks
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (only,) = spec["containers"]
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert only["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in only["resources"]["limits"]
        assert ":latest" not in only["image"]


@pytest.mark.parametrize("role", ROLES)
def test_probes_ask_what_the_service_tells(role: str) -> None:
    pod = container(render(), role)
    ready: dict[str, object] = {"port": PORTS[role]}
    service = READINESS[role]
    assert pod["readinessProbe"]["grpc"] == (ready | {"service": service} if service else ready)
    assert pod["livenessProbe"]["grpc"] == {"port": PORTS[role], "service": LIVENESS}
    assert pod["startupProbe"]["grpc"] == {"port": PORTS[role], "service": LIVENESS}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_key_is_one_of_its_service_and_its_value_is_taken(
    role: str, values: Values, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a file an unknown key ends the pod; in the environment a name that is no key would go unseen."""
    objects = render(values)
    properties = find(objects, "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"]
    path = tmp_path_factory.mktemp(role) / "barnabas.properties"
    path.write_text(properties)
    reported = [each for each in container(objects, role)["env"] if each["name"].startswith("BARNABAS_")]
    reported = [each for each in reported if each["name"] not in NO_KEYS]
    assert reported
    for each in reported:
        # What Kubernetes fills in from the pod's fields is the ordinal, or a zone.
        text = each.get("value", "0").replace("$(POD_NAME)", f"{role}-0").replace("$(POD_IP)", "10.0.0.7")
        monkeypatch.setenv(each["name"], text)
    loaded = load_config(ROLES[role], ["--config", str(path)], program=role)
    assert loaded.notices == []
    keys = {"BARNABAS_" + key.upper().replace(".", "_") for key in msgspec.to_builtins(loaded.config)}
    assert {each["name"] for each in reported} <= keys


def test_settings_arrive_where_they_belong() -> None:
    values: Values = {
        "cluster": {"autoCreateTopics": False, "minInsyncReplicas": 1, "logLevel": "debug"},
        "gateway": {"config": {"max.connections": 5_000_000, "log.message.downconversion.enable": False}},
    }
    properties = find(render(values), "ConfigMap", "barnabas-gateway")["data"]["barnabas.properties"].splitlines()
    assert "auto.create.topics.enable=false" in properties
    assert "max.connections=5000000" in properties
    assert "log.message.downconversion.enable=false" in properties
    assert "log.level=debug" in properties
    for role in ("logstore", "controller"):
        assert (
            "min.insync.replicas=1"
            in find(render(values), "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"].splitlines()
        )


@pytest.mark.parametrize("role", ROLES)
def test_pods_of_a_node_share_a_directory_for_lanes_only_if_asked_to(role: str) -> None:
    mounted, without = container(render(MATRIX["lanes"]), role), container(render(), role)
    (path,) = [each["mountPath"] for each in mounted["volumeMounts"] if each["name"] == "lanes"]
    assert {"name": "BARNABAS_LANE_DIRECTORY", "value": path} in mounted["env"]
    assert "lanes" not in {each["name"] for each in without["volumeMounts"]}


def test_a_node_without_the_directory_for_lanes_keeps_no_pod_from_starting() -> None:
    for role in ROLES:
        (volume,) = [
            each for each in pod_templates(render(MATRIX["lanes"]))[role]["spec"]["volumes"] if "hostPath" in each
        ]
        assert volume["hostPath"]["type"] == "DirectoryOrCreate"


def test_a_colocated_gateway_is_drawn_to_the_logstore_of_its_number_and_shares_its_lanes() -> None:
    objects = render(MATRIX["colocated"] | {"logstore": {"replicas": 5}})
    gateways = find(objects, "StatefulSet", "barnabas-gateway")
    assert gateways["spec"]["replicas"] == 5
    pod = gateways["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    attracted = term["podAffinityTerm"]
    assert attracted["topologyKey"] == "kubernetes.io/hostname"
    assert attracted["matchLabelKeys"] == ["apps.kubernetes.io/pod-index"]
    logstores = find(objects, "StatefulSet", "barnabas-logstore")["spec"]["template"]
    assert attracted["labelSelector"]["matchLabels"].items() <= logstores["metadata"]["labels"].items()
    directories = [
        [each["hostPath"] for each in template["volumes"] if each["name"] == "lanes"]
        for template in (pod, logstores["spec"])
    ]
    assert directories[0] == directories[1] != []


def test_clients_of_a_colocated_broker_come_to_the_gateway_beside_it() -> None:
    objects = render(MATRIX["colocated"])
    labels = find(objects, "StatefulSet", "barnabas-gateway")["spec"]["template"]["metadata"]["labels"]
    for node_id in range(3):
        service = find(objects, "Service", f"barnabas-broker-{node_id}")["spec"]
        assert service["selector"].items() <= (labels | {"apps.kubernetes.io/pod-index": str(node_id)}).items()
        assert service["selector"]["apps.kubernetes.io/pod-index"] == str(node_id)
        assert service["publishNotReadyAddresses"] is True
        (port,) = service["ports"]
        assert (port["port"], port["targetPort"]) == (9093 + node_id, 9093 + node_id)
    properties = find(objects, "ConfigMap", "barnabas-gateway")["data"]["barnabas.properties"].splitlines()
    assert "advertised.address.policy=per-broker-port" in properties
    advertised = "PLAINTEXT://barnabas-broker-{id}.prod.svc:9092,EXTERNAL://kafka.example.com:32092"
    assert f"advertised.listeners={advertised}" in properties
    # Any of them is a bootstrap server, and serves clients outside.
    for name in ("barnabas-gateway", "barnabas-gateway-external"):
        assert find(objects, "Service", name)["spec"]["selector"].items() <= labels.items()


def test_only_a_colocated_broker_has_a_service_of_its_own() -> None:
    assert not [each for each in render() if "-broker-" in each["metadata"]["name"]]


def test_another_configuration_is_another_pod_of_that_role_alone() -> None:
    before, after = (
        {role: template["metadata"]["annotations"]["checksum/config"] for role, template in templates.items()}
        for templates in (
            {role: each for role, each in pod_templates(render(values)).items() if role in ROLES}
            for values in ({}, {"purgatory": {"config": {"purgatory.entries.max": 7}}})
        )
    )
    assert {role for role in before if before[role] != after[role]} == {"purgatory"}


# --- where clients connect ---


def test_every_broker_has_a_port_inside_and_outside() -> None:
    objects = render(NODE_PORTS | {"logstore": {"replicas": 5}})
    inside = find(objects, "Service", "barnabas-gateway")["spec"]["ports"]
    outside = find(objects, "Service", "barnabas-gateway-external")["spec"]["ports"]
    assert [each["port"] for each in inside] == [9092, 9093, 9094, 9095, 9096, 9097]
    assert [each["nodePort"] for each in outside] == [32092, 32093, 32094, 32095, 32096, 32097]
    assert [each["targetPort"] for each in outside] == [19092, 19093, 19094, 19095, 19096, 19097]
    properties = find(objects, "ConfigMap", "barnabas-gateway")["data"]["barnabas.properties"]
    reported = "advertised.listeners=PLAINTEXT://barnabas-gateway.prod.svc:9092,EXTERNAL://kafka.example.com:32092"
    assert reported in properties.splitlines()


def test_a_shared_address_is_one_port() -> None:
    objects = render(BALANCED | {"cluster": {"addressPolicy": "shared"}})
    for name in ("barnabas-gateway", "barnabas-gateway-external"):
        assert len(find(objects, "Service", name)["spec"]["ports"]) == 1


def test_nothing_is_reached_from_outside_unless_asked_for() -> None:
    services = [each for each in render() if each["kind"] == "Service"]
    assert {each["spec"].get("type", "ClusterIP") for each in services} == {"ClusterIP"}


# --- how they are replaced ---


def test_logstores_are_replaced_one_by_one_and_a_broken_one_can_be_taken_back() -> None:
    spec = find(render(), "StatefulSet", "barnabas-logstore")["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate"}
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_a_replica_that_lags_is_not_ready() -> None:
    """The probe's name is the one of the health service that follows this count."""
    assert container(render(), "logstore")["readinessProbe"]["grpc"]["service"] == IN_SYNC
    assert ClusterImage().lagging_replicas(0) is None


@pytest.mark.parametrize("role", ["gateway", "purgatory", "controller"])
def test_a_stateless_pod_goes_when_another_one_has_come(role: str) -> None:
    strategy = find(render(), "Deployment", f"barnabas-{role}")["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_every_role_has_a_budget_and_a_policy_for_its_own_pods() -> None:
    objects = render()
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        labels = [each["metadata"]["labels"] for each in objects if each["kind"] == kind]
        assert {each["app.kubernetes.io/component"] for each in labels} == {*ROLES, "etcd"}


def test_autoscaling_leaves_the_number_of_gateways_alone() -> None:
    objects = render({"gateway": {"autoscaling": {"enabled": True}}})
    assert "replicas" not in find(objects, "Deployment", "barnabas-gateway")["spec"]
    assert find(objects, "HorizontalPodAutoscaler", "barnabas-gateway")["spec"]["minReplicas"] == 2


# --- etcd ---


def test_etcd_members_name_each_other() -> None:
    objects = render({"etcd": {"bundled": {"replicas": 3}}}, "y")
    command = container(objects, "etcd")["command"]
    members = ",".join(f"barnabas-y-etcd-{n}=https://barnabas-y-etcd-{n}.barnabas-y-etcd:2380" for n in range(3))
    assert f"--initial-cluster={members}" in command
    properties = find(objects, "ConfigMap", "barnabas-y-gateway")["data"]["barnabas.properties"]
    endpoints = ",".join(f"barnabas-y-etcd-{n}.barnabas-y-etcd:2379" for n in range(3))
    assert f"etcd.endpoints={endpoints}" in properties.splitlines()


def test_an_etcd_of_ones_own_is_reached_by_tls_from_a_secret() -> None:
    objects = render(example("production"))
    assert "etcd" not in pod_templates(objects)
    for role in ROLES:
        properties = find(objects, "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"].splitlines()
        assert "etcd.tls.authority=/etc/etcd-tls/ca.crt" in properties
        assert "etcd.tls.key=/etc/etcd-tls/tls.key" in properties
        mounts = {each["name"]: each["mountPath"] for each in container(objects, role)["volumeMounts"]}
        assert mounts["etcd-tls"] == "/etc/etcd-tls"
        volumes = {each["name"]: each for each in pod_templates(objects)[role]["spec"]["volumes"]}
        assert volumes["etcd-tls"]["secret"]["secretName"] == "barnabas-etcd"
