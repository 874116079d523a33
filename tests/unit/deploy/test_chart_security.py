"""What secures a release: certificates, users, ACLs, listeners, and who connects to whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from barnabas.cluster.access.service_permissions import DEFAULT_DOMAIN
from barnabas.cluster.acls import describe_acl
from barnabas.cluster.keys import Role
from barnabas.runtime.configuration.properties import parse_properties
from barnabas.runtime.etcd.users import ROOT
from barnabas.runtime.rpc import LIVENESS
from barnabas_cli.__main__ import main
from barnabas_cli.kubernetes.access import WantedAccess
from barnabas_cli.kubernetes.certificates import WantedSecrets
from barnabas_cli.local.etcd import ETCD_ADMINISTRATOR
from barnabas_cli.operator_access import read_access
from barnabas_logstore.shell.node import IN_SYNC
from scripts.kubernetes.chart import (
    Object,
    Values,
    container,
    example,
    find,
    job_templates,
    notes,
    pod_templates,
    render,
)
from tests.unit.deploy.shapes import COMPONENT, MATRIX, ROLES, SECRETS

pytestmark = pytest.mark.deep


# --- between the services ---


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("shape", ["default", "certificates issued", "certificates given"])
def test_a_role_shows_its_own_certificate_and_is_probed_without_one(role: str, shape: str) -> None:
    objects = render(MATRIX[shape])
    pod = pod_templates(objects)[role]["spec"]
    (secret,) = [each["secret"]["secretName"] for each in pod["volumes"] if each["name"] == "internal-tls"]
    (path,) = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == "internal-tls"]
    properties = find(objects, "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"].splitlines()
    assert f"inter.service.tls.key={path}/tls.key" in properties
    probed = container(objects, role)["readinessProbe"]["grpc"]["port"]
    key = "ops.listeners" if role == "gateway" else "health.listeners"
    assert f"{key}=0.0.0.0:{probed}" in properties
    if shape == "certificates issued":
        certificate = find(objects, "Certificate", f"barnabas-{role}-tls")["spec"]
        assert certificate["secretName"] == secret
        assert [role_name(name) for name in certificate["dnsNames"]] == [role]
        issuer = find(objects, "Issuer", certificate["issuerRef"]["name"])
        assert (
            issuer["spec"]["ca"]["secretName"]
            == find(objects, "Certificate", "barnabas-internal-ca")["spec"]["secretName"]
        )
    elif shape == "default":
        (wanted,) = [each for each in wanted_secrets(objects).certificates if each.secret == secret]
        assert [role_name(name) for name in wanted.names] == [role]
    else:
        assert secret == SECRETS[role]


def role_name(name: str) -> str:
    return name.removesuffix(f".{DEFAULT_DOMAIN}")


def test_an_issuer_of_ones_own_signs_what_is_asked_for() -> None:
    values: Values = {
        "mode": "certManager",
        "certManager": {"issuerRef": {"name": "corporate", "kind": "ClusterIssuer"}},
    }
    objects = render({"internalTls": values})
    assert not [each for each in objects if each["kind"] == "Issuer"]
    issuers = [each["spec"]["issuerRef"] for each in objects if each["kind"] == "Certificate"]
    assert issuers == 4 * [{"name": "corporate", "kind": "ClusterIssuer", "group": "cert-manager.io"}]


def test_cert_manager_is_asked_for_an_address_as_an_address() -> None:
    # As a name, an address is in a certificate that cert-manager issues and every client refuses.
    names = ["10.example.com", "*.example.com"]
    issued = {"mode": "certManager", "issuerRef": {"name": "public"}, "names": names}
    outside = {"type": "NodePort", "host": "10.89.0.1", "nodePort": 32092, "trustedNetwork": True}
    listener = {"name": "OUTSIDE", "protocol": "SSL", "port": 19092, "certificate": issued, "external": outside}
    spec = find(render({"listeners": [listener]}), "Certificate", "barnabas-listener-outside-tls")["spec"]
    assert spec["dnsNames"] == ["10.example.com", "*.example.com"]
    assert spec["ipAddresses"] == ["10.89.0.1"]


# --- what the jobs create and apply ---


def wanted_secrets(objects: list[Object]) -> WantedSecrets:
    text = find(objects, "ConfigMap", "barnabas-certificates")["data"]["wanted.json"]
    return msgspec.json.decode(text, type=WantedSecrets)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_secret_that_a_pod_mounts_is_generated_issued_or_given(values: Values) -> None:
    objects = render(values)
    generated: set[str] = set()
    if any(each["kind"] == "Job" and "-certificates-" in each["metadata"]["name"] for each in objects):
        wanted = wanted_secrets(objects)
        generated = {each.secret for each in (*wanted.certificates, *wanted.passwords)}
        (writable,) = [
            set(each["rules"][0]["resourceNames"])
            for each in objects
            if each["kind"] == "Role" and each["rules"][0]["resources"] == ["secrets"]
        ]
        assert writable == generated | {each.authority for each in wanted.certificates}
    issued = {each["spec"]["secretName"] for each in objects if each["kind"] == "Certificate"}
    mounted = {
        volume["secret"]["secretName"]
        for template in (*pod_templates(objects).values(), *job_templates(objects))
        for volume in template["spec"].get("volumes", [])
        if "secret" in volume
    }
    assert not generated & issued
    given = mounted - generated - issued
    assert all(name in str(values) for name in given), given


def test_users_and_acls_of_the_values_are_what_the_job_applies() -> None:
    objects = render(MATRIX["secure"])
    text = find(objects, "ConfigMap", "barnabas-access")["data"]["wanted.json"]
    applied = msgspec.json.decode(text, type=WantedAccess).applied()
    assert [user for user, _ in applied.users] == ["admin", "alice"]
    assert describe_acl(applied.acls[0]) == "ALLOW READ on TOPIC PREFIXED orders to User:alice from *"
    (pod,) = [each for each in job_templates(objects) if each["metadata"]["labels"][COMPONENT] == "access"]
    (only,) = pod["spec"]["containers"]
    mounted = {each["mountPath"] for each in only["volumeMounts"]}
    assert {"/etc/barnabas-users/0", "/etc/barnabas-users/1", "/etc/barnabas-tls"} <= mounted
    context = main.make_context("barnabas", list(only["command"][1:]), resilient_parsing=True)
    assert context.command is main


def test_without_anything_to_generate_there_is_no_account_with_rights() -> None:
    kinds = {each["kind"] for each in render(MATRIX["in the clear"])}
    assert not kinds & {"Role", "Job", "CronJob"}


def test_another_password_or_acl_is_another_job() -> None:
    names = [
        each["metadata"]["name"]
        for values in (MATRIX["secure"], MATRIX["secure"] | {"acls": []})
        for each in render(values)
        if each["kind"] == "Job" and "-access-" in each["metadata"]["name"]
    ]
    assert len(set(names)) == 2


def test_operators_in_a_controllers_pod_show_a_certificate(tmp_path: Path) -> None:
    objects = render()
    environment = {each["name"]: each.get("value") for each in container(objects, "controller")["env"]}
    assert environment["BARNABAS_OPERATOR_CONFIG"] == "/etc/barnabas/operator.properties"
    path = tmp_path / "operator.properties"
    path.write_text(find(objects, "ConfigMap", "barnabas-controller")["data"]["operator.properties"])
    access = read_access(path)
    (port,) = [each for each in wanted_secrets(objects).certificates if each.secret == "barnabas-operations-tls"]
    assert access.server_name in port.names
    assert access.tls.certificate == "/etc/barnabas-operator/tls.crt"


# --- health ---


@pytest.mark.parametrize("role", ROLES)
def test_health_by_tls_is_asked_for_by_a_command_with_the_files_of_its_pod(role: str) -> None:
    objects = render(MATRIX["probed by TLS"])
    properties = parse_properties(find(objects, "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"])
    files = secret_files(objects, role)
    port = properties["ops.listeners" if role == "gateway" else "health.listeners"].rpartition(":")[2]
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container(objects, role)[kind]
        program, name, *arguments = asked["exec"]["command"]
        assert (program, asked["timeoutSeconds"]) == ("barnabas", 10)
        command = main.commands[name]
        values = command.make_context(name, arguments).params
        assert values["address"] == f"127.0.0.1:{port}"
        assert values["tls_server_name"] == f"{role}.{DEFAULT_DOMAIN}"
        for part, key in (("authority", "ca.crt"), ("certificate", "tls.crt"), ("key", "tls.key")):
            path = values[f"tls_{part}"]
            assert properties[f"health.tls.{part}"] == path
            assert files(path)[1] == key
        in_sync = IN_SYNC if role == "logstore" else ""
        assert values["service"] == (in_sync if kind == "readinessProbe" else LIVENESS)


def test_health_by_tls_alone_wants_no_certificate() -> None:
    objects = render({"health": {"tls": {"enabled": True}}})
    for role in ROLES:
        properties = parse_properties(find(objects, "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"])
        assert {key for key in properties if key.startswith("health.tls")} == {
            "health.tls.certificate",
            "health.tls.key",
        }


# --- metrics ---


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("shape", [name for name in MATRIX if name.startswith("monitored by")])
def test_metrics_by_tls_have_their_files_in_every_service(shape: str, role: str) -> None:
    objects = render(MATRIX[shape])
    properties = parse_properties(find(objects, "ConfigMap", f"barnabas-{role}")["data"]["barnabas.properties"])
    files = secret_files(objects, role)
    secret = "metrics-keys" if shape == "monitored by certificates given" else "barnabas-metrics-tls"
    expected = {"metrics.tls.certificate": (secret, "tls.crt"), "metrics.tls.key": (secret, "tls.key")}
    if shape == "monitored by TLS":
        expected["metrics.tls.authority"] = (secret, "ca.crt")
        expected["metrics.token.file"] = ("scrape-token", "token")
    elif shape == "monitored by certificates issued":
        expected["metrics.tls.authority"] = ("scrapers-ca", "authority.pem")
    configured = {key: path for key, path in properties.items() if key.startswith(("metrics.tls.", "metrics.token."))}
    assert {key: files(path) for key, path in configured.items()} == expected


def secret_files(objects: list[Object], role: str) -> Callable[[str], tuple[str, str]]:
    """Return what finds a file's Secret and key by its path in a role's container."""
    mounts = {each["mountPath"]: each["name"] for each in container(objects, role)["volumeMounts"]}
    volumes = {each["name"]: each for each in pod_templates(objects)[role]["spec"]["volumes"]}

    def find_file(path: str) -> tuple[str, str]:
        directory, _, key = path.rpartition("/")
        return volumes[mounts[directory]]["secret"]["secretName"], key

    return find_file


def test_prometheus_shows_what_the_services_ask_for_and_reads_etcd_in_the_clear() -> None:
    objects = render(MATRIX["monitored by TLS"])
    services, etcd = find(objects, "ServiceMonitor", "barnabas")["spec"]["endpoints"]
    assert services["scheme"] == "https"
    generated = {each.secret: each for each in wanted_secrets(objects).certificates}
    tls = services["tlsConfig"]
    port = generated[tls["ca"]["secret"]["name"]]
    scraper = generated[tls["cert"]["secret"]["name"]]
    assert port.authority == scraper.authority != "barnabas-internal-ca"
    assert tls["serverName"] in port.names
    assert tls["keySecret"] == {"name": scraper.secret, "key": "tls.key"}
    assert services["authorization"]["credentials"] == {"name": "scrape-token", "key": "token"}
    assert etcd.get("scheme", "http") == "http"
    assert [each["relabelings"][0]["action"] for each in (services, etcd)] == ["drop", "keep"]
    assert [each["relabelings"][0]["regex"] for each in (services, etcd)] == ["etcd", "etcd"]


def test_prometheus_shows_a_certificate_of_ones_own_to_metrics_with_an_issuer_of_ones_own() -> None:
    objects = render(MATRIX["monitored by certificates issued"] | {"etcd": example("production")["etcd"]})
    (services,) = find(objects, "ServiceMonitor", "barnabas")["spec"]["endpoints"]
    assert services["tlsConfig"]["cert"]["secret"]["name"] == "prometheus-tls"
    issued = find(objects, "Certificate", "barnabas-metrics-tls")["spec"]
    assert issued["dnsNames"] == [services["tlsConfig"]["serverName"]] == ["metrics.example.com"]
    assert issued["issuerRef"]["kind"] == "ClusterIssuer"
    assert "barnabas-metrics-tls" not in {each.secret for each in wanted_secrets(objects).certificates}


# --- who connects to whom ---


def test_what_one_role_may_call_the_other_admits() -> None:
    """Both sides are one table; here they are read back from the policies."""
    policies = {each["metadata"]["labels"][COMPONENT]: each["spec"] for each in render() if is_policy(each)}
    let_out = {
        (caller, server, port["port"])
        for caller, spec in policies.items()
        for rule in spec["egress"]
        for peer in rule.get("to", [])
        for server in peer["podSelector"]["matchExpressions"][0]["values"]
        for port in rule["ports"]
    }
    let_in = {
        (caller, server, port["port"])
        for server, spec in policies.items()
        for rule in spec["ingress"]
        for peer in rule.get("from", [])
        for expression in peer["podSelector"].get("matchExpressions", [])
        for caller in expression["values"]
        if caller in policies
        for port in rule["ports"]
    }
    assert let_out == let_in
    assert ("gateway", "logstore", 9300) in let_out
    assert ("gateway", "logstore", 9301) not in let_out


def test_pods_reach_dns_and_an_etcd_elsewhere() -> None:
    for each in filter(is_policy, render(example("production"))):
        ports = [port["port"] for rule in each["spec"]["egress"] if "to" not in rule for port in rule["ports"]]
        assert sorted(set(ports)) == [53, 2379, 5353]


def test_further_connections_are_let_out_if_asked_for() -> None:
    extra = [{"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"port": 4317}]}]
    for each in filter(is_policy, render({"networkPolicy": {"egress": {"extra": extra}}})):
        assert each["spec"]["egress"][-1] == extra[0]
    for each in filter(is_policy, render({"networkPolicy": {"egress": {"enabled": False}}})):
        assert each["spec"]["policyTypes"] == ["Ingress"]
        assert "egress" not in each["spec"]


def is_policy(each: Object) -> bool:
    return bool(each["kind"] == "NetworkPolicy")


# --- listeners ---


def test_each_listener_has_its_ports_its_address_and_its_certificate() -> None:
    objects = render(MATRIX["all listeners"])
    properties = parse_properties(find(objects, "ConfigMap", "barnabas-gateway")["data"]["barnabas.properties"])
    gateway = "barnabas-gateway.prod.svc"
    assert properties["advertised.listeners"] == (
        f"PLAINTEXT://{gateway}:9092,Mutual://{gateway}:19092,OLD://{gateway}:29092,PUBLIC://kafka.example.com:39092"
    )
    assert properties["listener.security.protocol.map"] == "Mutual:SSL,OLD:SASL_PLAINTEXT,PUBLIC:SASL_SSL"
    assert properties["listener.name.mutual.ssl.client.auth"] == "required"
    inside = find(objects, "Service", "barnabas-gateway")["spec"]["ports"]
    outside = find(objects, "Service", "barnabas-gateway-public")["spec"]["ports"]
    assert [each["port"] for each in inside] == [start + n for start in (9092, 19092, 29092) for n in range(4)]
    assert [each["port"] for each in outside] == [39092, 39093, 39094, 39095]
    assert len({each["name"] for each in inside}) == len(inside)
    mounts = {each["mountPath"]: each["name"] for each in container(objects, "gateway")["volumeMounts"]}
    volumes = {each["name"]: each for each in pod_templates(objects)["gateway"]["spec"]["volumes"]}
    for key, secret in {
        "listener.name.mutual.ssl.keystore.location": "gateway-keys",
        "listener.name.mutual.ssl.truststore.location": "clients-ca",
        "listener.name.public.ssl.keystore.location": "barnabas-listener-public-tls",
    }.items():
        directory = properties[key].rpartition("/")[0]
        assert volumes[mounts[directory]]["secret"]["secretName"] == secret
    (policy,) = [each for each in objects if is_policy(each) and each["metadata"]["name"] == "barnabas-gateway"]
    admitted = [(each["port"], each["endPort"]) for each in policy["spec"]["ingress"][0]["ports"]]
    assert admitted == [(9092, 9095), (19092, 19095), (29092, 29095), (39092, 39095)]


# --- etcd ---


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_its_own_key_of_the_bundled_etcd_and_the_administrators_is_in_no_pod(role: str) -> None:
    """All pods had one, by which etcd let each do everything."""
    objects = render()
    spec = pod_templates(objects)[role]["spec"]
    mounted = {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    assert {name for name in mounted if "etcd" in name} == {f"barnabas-etcd-{role}-tls"}
    (wanted,) = [each for each in wanted_secrets(objects).certificates if each.secret == f"barnabas-etcd-{role}-tls"]
    # The user that `barnabas kubernetes etcd-users` gives its rights.
    assert (wanted.common_name, wanted.authority) == (role, "barnabas-etcd-ca")
    assert role in {each.value for each in Role}
    # CVE-2018-16886: etcd's own certificate is no user's.
    (server,) = [each for each in wanted_secrets(objects).certificates if each.secret == "barnabas-etcd-tls"]
    assert server.common_name not in {*(each.value for each in Role), ETCD_ADMINISTRATOR, ROOT}


@pytest.mark.parametrize("shape", ["default", "three members"])
def test_a_job_limits_the_users_of_the_bundled_etcd(shape: str) -> None:
    members = 3 if shape == "three members" else 1
    bundled: Values = {"bundled": {"replicas": members}, "prefix": "/p/"}
    objects = render({"etcd": bundled})
    pod = the_job_of(objects, "etcd-users")
    (only,) = pod["containers"]
    command = only["command"]
    assert command[:3] == ["barnabas", "kubernetes", "etcd-users"]
    given = list(zip(command[3::2], command[4::2], strict=True))
    assert [value for option, value in given if option == "--etcd"] == [
        f"barnabas-etcd-{number}.barnabas-etcd:2379" for number in range(members)
    ]
    assert ("--etcd-prefix", "/p/") in given
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "barnabas-etcd-client-tls"
    (mount,) = only["volumeMounts"]
    assert {value.rpartition("/")[0] for option, value in given if "tls" in option} == {mount["mountPath"]}
    assert not pod["automountServiceAccountToken"]
    users = main.commands["kubernetes"].commands["etcd-users"]  # type: ignore[attr-defined]
    taken = users.make_context("etcd-users", command[3:]).params
    assert taken["etcd_endpoints"] == tuple(value for option, value in given if option == "--etcd")
    assert (taken["limits"], taken["etcd_prefix"]) == (True, "/p/")
    policy = find(objects, "NetworkPolicy", "barnabas-etcd")["spec"]["ingress"]
    (clients, *_) = [rule for rule in policy if rule["ports"][0]["port"] == 2379]
    assert "etcd-users" in clients["from"][0]["podSelector"]["matchExpressions"][0]["values"]


def test_limits_of_etcd_are_ended_by_a_value() -> None:
    (only,) = the_job_of(render({"etcd": {"bundled": {"limitUsers": False}}}), "etcd-users")["containers"]
    assert only["command"][-1] == "--no-limits"


@pytest.mark.parametrize("shape", ["without TLS", "its own"])
def test_an_etcd_without_certificates_of_the_release_has_no_users_of_it(shape: str) -> None:
    own: Values = {"bundled": {"enabled": False}, "external": {"endpoints": ["e:2379"]}}
    objects = render({"etcd": own if shape == "its own" else {"bundled": {"tls": "none"}}})
    assert not [each for each in objects if each["metadata"]["name"].startswith("barnabas-etcd-users")]


def the_job_of(objects: list[Object], task: str) -> Object:
    (job,) = [each for each in objects if each["kind"] == "Job" and f"-{task}-" in each["metadata"]["name"]]
    spec: Object = job["spec"]["template"]["spec"]
    return spec


# --- what is said ---


def test_an_install_says_what_is_open_and_what_closes_it() -> None:
    """Nothing said that the default lets everyone read and delete all topics."""
    warned = notes().partition("WARNING: this release is open.")[2].partition("\n\n")[0]
    assert [line.split(":")[0].split(".")[0].strip() for line in warned.splitlines()[1:]] == [
        "- port 9092 is in the clear",
        "- port 9092 asks for no credentials",
        "- every client may read, write and delete all topics",
        "- every pod of the cluster reaches Kafka's ports",
    ]
    assert "reaches all ports" in notes({"networkPolicy": {"enabled": False}})


def test_a_secure_release_warns_of_nothing() -> None:
    closed: Values = {"networkPolicy": {"clients": [{"podSelector": {}}]}}
    listeners = [
        {"name": "CLIENTS", "protocol": "SASL_SSL", "port": 9092, "mechanisms": ["SCRAM-SHA-512"]},
        {"name": "BY_CERTIFICATE", "protocol": "SSL", "port": 9192, "clientAuth": "required"},
    ]
    secure = example("secure")
    assert "WARNING" not in notes(secure | closed)
    text = notes({"listeners": [listeners[0] | {"protocol": "SASL_PLAINTEXT"}]} | closed)
    assert "port 9092 is in the clear" in text
    assert "asks for no credentials" not in text


def test_no_secret_is_in_a_config_map_an_argument_or_a_value_of_the_environment() -> None:
    """But by reference: etcd's password, which has no file."""
    for values in MATRIX.values():
        for each in render(values):
            if each["kind"] == "Secret":
                raise AssertionError("the chart writes no Secret: its values are in the release's")
            text = msgspec.json.encode(each).decode()
            assert "PRIVATE KEY" not in text
        for template in (*pod_templates(render(values)).values(), *job_templates(render(values))):
            for variable in template["spec"]["containers"][0].get("env", []):
                if "PASSWORD" in variable["name"] or "SECRET" in variable["name"]:
                    assert variable.keys() == {"name", "valueFrom"}, variable
