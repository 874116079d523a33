"""The step `metrics`: scrapers need a certificate and a token."""

from __future__ import annotations

from tests.k8s.load_process import clean
from tests.k8s.trial import Trial

TOKEN = "scraped-by-this-alone"
ROLES = ("controller", "gateway", "logstore", "purgatory")


def metrics(trial: Trial) -> list[str]:
    """Metrics by TLS: a scraper shows a certificate and a token, or gets nothing."""
    trial.kubectl("create", "secret", "generic", "scrape-token", f"--from-literal=token={TOKEN}")
    with trial.load("measured") as reports:
        trial.upgrade(
            **{
                "metrics.tls.mode": "generated",
                "metrics.tls.clientAuth": "required",
                "metrics.token.secretName": "scrape-token",
            }
        )
    lines = [f"the upgrade under load: {clean(reports)}"]
    own = trial.write_secret(f"{trial.name}-scraper-tls")
    authority = ["--cacert", f"{own}/ca.crt"]
    certificate = ["--cert", f"{own}/tls.crt", "--key", f"{own}/tls.key"]
    token = ["--header", f"Authorization: Bearer {TOKEN}"]
    server = f"{trial.name}-metrics"
    pods = trial.pods()
    for role in ROLES:
        host = next(pod["status"]["podIP"] for name, pod in pods.items() if f"-{role}-" in name)
        by_tls = [f"https://{server}:9404/metrics", "--resolve", f"{server}:9404:{host}", *authority]
        assert status(trial, *by_tls, *certificate, *token) == "200", role
        assert status(trial, *by_tls, *certificate) == "401", role
        assert status(trial, *by_tls, *token) == "000", role
        assert status(trial, f"http://{host}:9404/metrics", *token) == "000", role
    etcd = next(pod["status"]["podIP"] for pod in trial.pods("etcd").values())
    assert status(trial, f"http://{etcd}:2381/metrics") == "200"
    lines.append(f"{', '.join(ROLES)}: 200 with a certificate and the token; 401 without the token; nothing otherwise")
    lines.append("etcd's own are in the clear")
    return lines


def status(trial: Trial, *arguments: str) -> str:
    """The HTTP status of a scrape; 000: there was no answer."""
    command = ["curl", "--silent", "--output", "/dev/null", "--max-time", "20", "--write-out", "%{http_code}"]
    # Without an answer curl fails, and has written its status before.
    return trial.cluster.run("sh", "-c", '"$@" || true', "sh", *command, *arguments)
