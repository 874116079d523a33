"""The step `given_secrets`: certificates of an authority of one's own, in Secrets that the chart did not make."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

from barnabas_cli.local.certificates import Authority, create_authority, issue
from tests.k8s.cluster import in_words
from tests.k8s.secure import answers, attempt, certificate_at, values
from tests.k8s.trial import Trial

ROLES = ("controller", "gateway", "logstore", "purgatory")
DOMAIN = "kafka.example"
LISTENER = "listener-keys"
MARKER = b"-----BEGIN CERTIFICATE-----"


def given_secrets(trial: Trial) -> list[str]:
    """Certificates of services and a listener from given Secrets; health by TLS for callers without a certificate."""
    trial.create_namespace()
    now = datetime.fromtimestamp(time.time(), UTC)
    services, clients = create_authority("services", now), create_authority("clients", now)
    for role in ROLES:
        give(trial, f"own-{role}", issued(services, role, f"{role}.{DOMAIN}", now))
    key_store = issue(clients, "gateway", (trial.cluster.address, f"{trial.name}-gateway"), now)
    give(trial, LISTENER, {"keystore.pem": key_store})
    trial.listeners = {"listeners": listeners(trial)}
    trial.overrides = {
        "internalTls.mode": "secrets",
        "internalTls.domain": DOMAIN,
        **{f"internalTls.secrets.{role}": f"own-{role}" for role in ROLES},
        "etcd.bundled.tls": "generated",
        "operators.authentication": "certificate",
        "health.tls.enabled": "true",
    }
    trial.install()
    generated = trial.cluster.get("secrets", trial.namespace, "app.kubernetes.io/managed-by=barnabas")
    names = [each["metadata"]["name"] for each in generated]
    assert not {f"{trial.name}-{role}-tls" for role in ROLES} & set(names), names
    lines = [f"`helm install --wait` ended with {len(trial.ready())} pods ready; the job created {in_words(names)}"]
    lines.append(inside(trial, services))
    trusted = {"security.protocol": "SSL", "ssl.ca.pem": clients.pem.decode()}
    trial.create_topic("orders", partitions=1)
    served = attempt(trial, "orders", **trusted)
    assert served.get("consumed") == 20, served
    lines.append(f"a client that trusts the listener's authority: {served['consumed']} records produced and consumed")
    outcome = attempt(trial, "orders", **(trusted | {"ssl.ca.pem": services.pem.decode()}))
    assert "refused" in outcome, outcome
    lines.append(f"one that trusts the services' alone: refused, {outcome['refused'][:110]}")
    trial.clean_up()
    return lines


def issued(authority: Authority, common_name: str, name: str, now: datetime) -> dict[str, bytes]:
    key, mark, chain = issue(authority, common_name, (name,), now).partition(MARKER)
    return {"tls.key": key, "tls.crt": mark + chain, "ca.crt": authority.pem}


def give(trial: Trial, name: str, content: dict[str, bytes]) -> None:
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    metadata = {"name": name, "namespace": trial.namespace}
    trial.cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def listeners(trial: Trial) -> list[dict[str, object]]:
    """The clear one for clients inside, and TLS without users by the given key store."""
    plain, _external, clients = values(trial, [])["listeners"]
    del clients["mechanisms"]
    given = {"mode": "secret", "secretName": LISTENER}
    trusted = clients["external"] | {"trustedNetwork": True}
    return [plain, clients | {"protocol": "SSL", "certificate": given, "external": trusted}]


def inside(trial: Trial, authority: Authority) -> str:
    """The services' ports, and health's, which asks callers for nothing here."""
    own = trial.write_secret("own-gateway")
    pods = trial.pods()
    shown = ["-cert", f"{own}/tls.crt", "-key", f"{own}/tls.key"]
    for role, port, health in (("controller", 9091, 9401), ("logstore", 9300, 9401), ("purgatory", 9600, 9401)):
        host = next(pod["status"]["podIP"] for name, pod in pods.items() if f"-{role}-" in name)
        assert certificate_at(trial, f"{host}:{port}"), f"{role} shows no certificate"
        assert answers(trial, f"{host}:{port}", *shown), f"{role} does not answer a gateway's certificate"
        assert not answers(trial, f"{host}:{port}"), f"{role} answers without a certificate"
        probe = [".venv/bin/barnabas", "probe", f"{host}:{health}", "--tls-authority", f"{own}/ca.crt"]
        answer = trial.cluster.run(*probe, "--tls-server-name", f"{role}.{DOMAIN}").strip()
        assert answer == "SERVING", (role, answer)
    assert (own / "ca.crt").read_bytes() == authority.pem
    return (
        "controller, logstore, purgatory: answer a given gateway's certificate, and nothing without one; their health "
        "is SERVING to a caller by TLS without a certificate"
    )
