"""The step `cert_manager`: certificates of cert-manager, for the services, a listener and metrics."""

from __future__ import annotations

from typing import Any

from tests.k8s.cluster import CommandFailed, in_words, wait_until
from tests.k8s.load_process import clean
from tests.k8s.metrics import status
from tests.k8s.secure import SECURE_PORT, answers, attempt, certificate_at, differs, restarts, values
from tests.k8s.trial import Trial

ISSUER = {"name": "clients", "kind": "Issuer", "group": "cert-manager.io"}


def cert_manager(trial: Trial) -> list[str]:
    """cert-manager issues and replaces the certificates of the services, of a listener and of metrics."""
    try:
        trial.cluster.run("kubectl", "get", "crd", "certificates.cert-manager.io")
    except CommandFailed:
        return ["not done: the cluster has no cert-manager, which is another project"]
    trial.create_namespace()
    trial.cluster.apply(*own_issuer(trial.namespace))
    trial.listeners = {"listeners": listeners(trial)}
    trial.overrides = {
        "internalTls.mode": "certManager",
        "etcd.bundled.tls": "generated",
        "operators.authentication": "certificate",
        "metrics.tls.mode": "certManager",
        "metrics.tls.issuerRef.name": ISSUER["name"],
    }
    trial.install()
    certificates = trial.cluster.get("certificates.cert-manager.io", trial.namespace)
    missing = [each["metadata"]["name"] for each in certificates if not is_issued(each)]
    assert not missing, f"not issued: {in_words(missing)}"
    lines = [f"{len(certificates)} certificates issued; `helm install --wait` ended with every pod ready"]
    logstore = f"{next(iter(trial.pods('logstore').values()))['status']['podIP']}:9300"
    own = trial.write_secret(f"{trial.name}-gateway-tls")
    shown = ["-cert", f"{own}/tls.crt", "-key", f"{own}/tls.key"]
    assert answers(trial, logstore, *shown), "a logstore does not answer a gateway's certificate"
    assert not answers(trial, logstore), "a logstore answers without a certificate"
    lines.append("a logstore answers a gateway's certificate, and no caller without one")
    listener = f"{trial.name}-listener-clients-tls"
    trusted = {"security.protocol": "SSL", "ssl.ca.pem": trial.secret(listener)["ca.crt"].decode()}
    trial.create_topic("orders", partitions=1)
    served = attempt(trial, "orders", **trusted)
    assert served.get("consumed") == 20, served
    lines.append(f"a client that trusts the issuer's authority: {served['consumed']} records produced and consumed")
    metrics = trial.write_secret(f"{trial.name}-metrics-tls")
    server, host = f"{trial.name}-metrics", logstore.partition(":")[0]
    scrape = [f"https://{server}:9404/metrics", "--resolve", f"{server}:9404:{host}", "--cacert", f"{metrics}/ca.crt"]
    scraped = status(trial, *scrape)
    assert scraped == "200", scraped
    lines.append("a logstore's metrics by TLS: 200")
    lines.append(replacement(trial, logstore, listener))
    trial.clean_up()
    return lines


def replacement(trial: Trial, logstore: str, listener: str) -> str:
    """Other certificates under load: no pod restarts."""
    before = {name: restarts(pod) for name, pod in trial.pods().items()}
    addresses = (f"{trial.cluster.address}:{SECURE_PORT}", logstore)
    shown = [certificate_at(trial, address) for address in addresses]
    assert all(shown), "a server shows no certificate"
    with trial.load("reissued") as reports:
        trial.kubectl("delete", "secret", listener, f"{trial.name}-logstore-tls", f"{trial.name}-gateway-tls")
        seconds = 0.0
        for address, before_it in zip(addresses, shown, strict=True):
            seconds += wait_until(f"another certificate at {address}", differs(trial, address, before_it), 240, 3)
    after = {name: restarts(pod) for name, pod in trial.pods().items()}
    assert before == after, (before, after)
    return (
        "Secrets were deleted: cert-manager issued others, which the listener's clients and callers of a logstore were "
        f"shown {seconds:.0f} s later; no pod restarted: {clean(reports)}"
    )


def is_issued(certificate: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in certificate.get("status", {}).get("conditions", [])}
    return conditions.get("Ready") == "True"


def listeners(trial: Trial) -> list[dict[str, Any]]:
    """Those of the step `secure`, but the last one: TLS without users, by an issuer."""
    plain, external, clients = values(trial, [])["listeners"]
    del clients["mechanisms"]
    issued = {"mode": "certManager", "issuerRef": ISSUER}
    trusted = clients["external"] | {"trustedNetwork": True}
    return [plain, external, clients | {"protocol": "SSL", "certificate": issued, "external": trusted}]


def own_issuer(namespace: str) -> list[dict[str, Any]]:
    """An authority for clients, which is not of the release."""

    def make(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": metadata, "spec": spec}

    root = ISSUER | {"name": "root"}
    authority = {"isCA": True, "commonName": "clients", "secretName": "clients-ca", "issuerRef": root}
    return [
        make("Issuer", "root", {"selfSigned": {}}),
        make("Certificate", "clients-ca", authority | {"privateKey": {"algorithm": "ECDSA", "size": 256}}),
        make("Issuer", ISSUER["name"], {"ca": {"secretName": "clients-ca"}}),
    ]
