"""The step `secure`: users and ACLs of the values, TLS for clients, and an inside that refuses who does not belong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.k8s.cluster import wait_until
from tests.k8s.load_process import clean
from tests.k8s.trial import NODE_PORT, Trial

SECURE_PORT = 32192
PASSWORD = "alice's own"
ACLS = [
    {"principal": "User:alice", "resourceType": "TOPIC", "resourceName": "orders", "operations": ["READ", "WRITE"]},
    {"principal": "User:alice", "resourceType": "GROUP", "resourceName": "orders", "operations": ["READ"]},
]


def secure(trial: Trial) -> list[str]:
    """Clients by SASL_SSL with ACLs beside the trusted listener; the inside refuses who has no certificate."""
    trial.kubectl("create", "secret", "generic", "alice", f"--from-literal=password={PASSWORD}")
    trial.listeners = values(trial, ACLS)
    with trial.load("upgraded") as reports:
        trial.upgrade()
        trial.kubectl("wait", "--for=condition=complete", "job", *jobs(trial, "access"), "--timeout=180s")
    lines = [f"the upgrade added a listener, users and ACLs under load: {clean(reports)}"]
    trial.create_topic("orders", partitions=1)
    trial.create_topic("invoices", partitions=1)
    return [*lines, *clients(trial), *removal(trial), *inside(trial), *rotation(trial)]


def values(trial: Trial, acls: list[dict[str, Any]]) -> dict[str, Any]:
    """The listener for the load of all steps, which is trusted, and another one."""
    outside = {"type": "NodePort", "host": trial.cluster.address}
    return {
        "listeners": [
            {"name": "PLAINTEXT", "protocol": "PLAINTEXT", "port": 9092},
            {
                "name": "EXTERNAL",
                "protocol": "PLAINTEXT",
                "port": 19092,
                "external": {**outside, "nodePort": NODE_PORT, "trustedNetwork": True},
            },
            {
                "name": "CLIENTS",
                "protocol": "SASL_SSL",
                "port": 29092,
                "mechanisms": ["SCRAM-SHA-512"],
                "external": {**outside, "nodePort": SECURE_PORT},
            },
        ],
        "authorization": {"enabled": True, "superUsers": ["User:ANONYMOUS"]},
        "users": [{"name": "alice", "existingSecret": "alice"}, {"name": "bob"}],
        "acls": acls,
    }


def jobs(trial: Trial, task: str) -> list[str]:
    names = trial.kubectl("get", "jobs", "--selector", f"app.kubernetes.io/component={task}", "--output", "name")
    return [each.rpartition("/")[2] for each in names.split()]


def attempt(trial: Trial, topic: str, **properties: str) -> dict[str, Any]:
    """What became of a client: {"consumed": …} or {"refused": …}."""
    bootstrap = f"{trial.cluster.address}:{SECURE_PORT}"
    found: dict[str, Any] = json.loads(
        trial.cluster.python("tests.k8s.authenticated", bootstrap, topic, json.dumps(properties))
    )
    return found


def properties_of(trial: Trial, user: str, password: str) -> dict[str, str]:
    authority = trial.secret(f"{trial.name}-listener-clients-tls")["ca.crt"].decode()
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.ca.pem": authority,
        "sasl.username": user,
        "sasl.password": password,
    }


def clients(trial: Trial) -> list[str]:
    alice = properties_of(trial, "alice", PASSWORD)
    bob = properties_of(trial, "bob", trial.secret(f"{trial.name}-user-bob")["password"].decode())
    served = attempt(trial, "orders", **alice)
    assert served.get("consumed") == 20, served
    lines = [f"alice, with the password of a Secret, by SASL_SSL: {served['consumed']} records produced and consumed"]
    for what, topic, properties in (
        ("alice on a topic without an ACL", "invoices", alice),
        ("bob, whose password was generated, without an ACL", "orders", bob),
        ("alice with another password", "orders", {**alice, "sasl.password": "wrong"}),
        ("a client without a user", "orders", {"security.protocol": "SSL", "ssl.ca.pem": alice["ssl.ca.pem"]}),
        ("a client in the clear", "orders", {}),
        ("alice, who trusts another authority", "orders", {**alice, "ssl.ca.pem": other_authority(trial)}),
    ):
        outcome = attempt(trial, topic, **properties)
        assert "refused" in outcome, (what, outcome)
        lines.append(f"{what}: refused, {outcome['refused'][:110]}")
    return lines


def other_authority(trial: Trial) -> str:
    return trial.secret(f"{trial.name}-gateway-tls")["ca.crt"].decode()


def removal(trial: Trial) -> list[str]:
    """An ACL that the values no longer have goes; one that others have created stays."""
    trial.listeners = values(trial, ACLS[1:])
    trial.upgrade()
    trial.kubectl("wait", "--for=condition=complete", "job", *jobs(trial, "access"), "--timeout=180s")
    said = trial.kubectl("logs", f"job/{jobs(trial, 'access')[0]}")
    outcome = attempt(trial, "orders", **properties_of(trial, "alice", PASSWORD))
    assert "refused" in outcome, outcome
    return [f"without the ACL in the values: {' | '.join(said.split(chr(10))[-3:]).strip(' |')}; alice is refused"]


def inside(trial: Trial) -> list[str]:
    """The services' ports and the operators' API, without a certificate and with one of less rights."""
    pods, tried = trial.pods(), []
    own = trial.write_secret(f"{trial.name}-gateway-tls")
    shown = ["-cert", f"{own}/tls.crt", "-key", f"{own}/tls.key"]
    for role, port in (("controller", 9091), ("logstore", 9300), ("logstore", 9301), ("purgatory", 9600)):
        address = f"{next(pod['status']['podIP'] for name, pod in pods.items() if f'-{role}-' in name)}:{port}"
        assert answers(trial, address, *shown), f"{role}:{port} does not answer a gateway's certificate"
        assert not answers(trial, address), f"{role}:{port} answers without a certificate"
        tried.append(f"{role}:{port}")
    reported = [f"answer a gateway's certificate, and nothing without one: {', '.join(tried)}"]
    leader = ",".join(f"{pod['status']['podIP']}:9090" for name, pod in pods.items() if "-controller-" in name)
    given = [leader, "CreateTopic", json.dumps({"topic": "denied", "partitions": 1, "replicationFactor": 1})]
    in_clear = trial.cluster.refused(*python("tests.k8s.operations", *given))
    viewer = [*given, str(trial.certificate_of("viewer")), f"{trial.name}-controller"]
    denied = trial.cluster.refused(*python("tests.k8s.operations", *viewer))
    assert "PERMISSION_DENIED" in denied, denied
    reported.append(f"the operators' API: in the clear {last_line(in_clear)[:60]}; as viewer {last_line(denied)[:90]}")
    return reported


def answers(trial: Trial, address: str, *options: str) -> bool:
    """Whether a server answers HTTP/2's preface with at least a byte."""
    preface = r"printf 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\000\000\000\004\000\000\000\000\000'"
    command = " ".join(openssl(address, "-quiet", "-alpn", "h2", *options))
    said = trial.cluster.run("sh", "-c", f"{preface} | {command} 2>/dev/null | head -c 1 | wc -c")
    return int(said) > 0


def handshakes(trial: Trial, address: str, *options: str) -> bool:
    """Whether a server that asks for certificates goes on after the handshake: it ends with an alert otherwise."""
    command = " ".join(openssl(address, "-alpn", "h2", *options))
    said = trial.cluster.run("sh", "-c", f"(sleep 1; echo Q) | {command} 2>&1 || true")
    return "CONNECTED" in said and "alert" not in said and "errno" not in said


def rotation(trial: Trial) -> list[str]:
    """Other certificates while the pods run: no restart."""
    secret = f"{trial.name}-listener-clients-tls"
    before = {name: restarts(pod) for name, pod in trial.pods().items()}
    logstore = next(pod["status"]["podIP"] for name, pod in trial.pods("logstore").items())
    addresses = (f"{trial.cluster.address}:{SECURE_PORT}", f"{logstore}:9300")
    shown = [certificate_at(trial, address) for address in addresses]
    assert all(shown)
    with trial.load("rotated") as reports:
        for each in (
            secret,
            f"{trial.name}-gateway-tls",
            f"{trial.name}-logstore-tls",
            f"{trial.name}-etcd-client-tls",
        ):
            trial.kubectl("delete", "secret", each)
        trial.kubectl("create", "job", "renewal", f"--from=cronjob/{trial.name}-certificates")
        trial.kubectl("wait", "--for=condition=complete", "job", "renewal", "--timeout=120s")
        seconds = 0.0
        for address, before_it in zip(addresses, shown, strict=True):
            seconds += wait_until(f"another certificate at {address}", differs(trial, address, before_it), 240, 3)
    after = {name: restarts(pod) for name, pod in trial.pods().items()}
    assert before == after, (before, after)
    said = trial.kubectl("logs", "job/renewal").replace("\n", "; ").strip("; ")
    trial.kubectl("delete", "job", "renewal")
    shown_where = "a listener's clients and callers of a logstore"
    return [
        said,
        f"{shown_where} were shown another certificate {seconds:.0f} s later; no pod restarted: {clean(reports)}",
    ]


def differs(trial: Trial, address: str, before: str) -> Callable[[], bool]:
    return lambda: certificate_at(trial, address) not in ("", before)


def certificate_at(trial: Trial, address: str) -> str:
    """Return what a server shows, also to a caller without a certificate; empty: nothing just now."""
    said = trial.cluster.run("sh", "-c", " ".join(openssl(address, "-showcerts")) + " 2>&1 || true", text="")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return said[said.index(begin) : said.index(end) + len(end)] if end in said else ""


def openssl(address: str, *options: str) -> list[str]:
    return ["timeout", "10", "openssl", "s_client", "-connect", address, *options]


def python(module: str, *arguments: str) -> list[str]:
    return [".venv/bin/python", "-m", module, *arguments]


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1].rpartition("…: ")[2]


def restarts(pod: dict[str, Any]) -> int:
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
