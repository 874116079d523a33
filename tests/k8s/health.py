"""The step `health`: health by TLS, and what Kubernetes learns of a pod by the command that asks for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.k8s.cluster import wait_until
from tests.k8s.load_process import clean
from tests.k8s.secure import certificate_at, differs, restarts
from tests.k8s.trial import Trial, is_ready

ASKED = (
    ("controller", 9401, ""),
    ("gateway", 9400, ""),
    ("gateway", 9400, "liveness"),
    ("logstore", 9401, "in-sync"),
    ("purgatory", 9401, "liveness"),
)
"""Role, port and service: what the pods' own probes ask for."""
VALUES = ("health.tls.enabled", "health.tls.clientAuth")


def health(trial: Trial) -> list[str]:
    """Health by TLS: pods ask themselves by a command; callers need a certificate; a pod that hangs is restarted."""
    with trial.load("probed") as reports:
        trial.upgrade(**dict(zip(VALUES, ("true", "required"), strict=True)))
    lines = [f"the upgrade under load: {clean(reports)}"]
    assert sum(restarts(pod) for pod in trial.pods().values()) == 0
    lines.append(by_command(trial))
    lines.append(callers(trial))
    lines.append(replaced(trial))
    if trial.cluster.node_tool is not None:
        lines.append(frozen(trial))
    with trial.load("probed-in-clear") as reports:
        trial.upgrade(**dict(zip(VALUES, ("false", "none"), strict=True)))
    return [*lines, f"back to health in the clear, under load: {clean(reports)}"]


def by_command(trial: Trial) -> str:
    """Every pod of a service is ready by `barnabas probe` alone."""
    pods = [pod for name, pod in trial.pods().items() if "-etcd-" not in name]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[kind]["exec"]["command"][:2] == ["barnabas", "probe"], (kind, container[kind])
        assert is_ready(pod), pod["metadata"]["name"]
    return f"{len(pods)} pods with the probe `barnabas probe` are ready, none restarted"


def callers(trial: Trial) -> str:
    """Callers from outside of the pods: with a certificate, without, and in the clear."""
    own = trial.write_secret(f"{trial.name}-gateway-tls")
    certificate = ["--tls-certificate", f"{own}/tls.crt", "--tls-key", f"{own}/tls.key"]
    pods, asked = trial.pods(), []
    for role, port, service in ASKED:
        host = next(pod["status"]["podIP"] for name, pod in pods.items() if f"-{role}-" in name)
        probe = [".venv/bin/barnabas", "probe", f"{host}:{port}", *(["--service", service] if service else [])]
        by_tls = ["--tls-authority", f"{own}/ca.crt", "--tls-server-name", f"{role}.barnabas.internal"]
        answer = trial.cluster.run(*probe, *by_tls, *certificate).strip()
        assert answer == "SERVING", (role, service, answer)
        for options in (by_tls, []):
            refusal = trial.cluster.refused(*probe, *options)
            assert "UNAVAILABLE" in refusal, (role, service, options, refusal)
        asked.append(f"{role} {service}".strip())
    return f"SERVING to a certificate of their authority, and nothing without one or in the clear: {', '.join(asked)}"


def replaced(trial: Trial) -> str:
    """Another certificate while the pods run: the port shows it, and probes of before and after it succeed."""
    before = {name: restarts(pod) for name, pod in trial.pods().items()}
    address = f"{next(iter(trial.pods('logstore').values()))['status']['podIP']}:9401"
    shown = certificate_at(trial, address)
    assert shown
    trial.kubectl("delete", "secret", f"{trial.name}-logstore-tls")
    trial.kubectl("create", "job", "health-renewal", f"--from=cronjob/{trial.name}-certificates")
    trial.kubectl("wait", "--for=condition=complete", "job", "health-renewal", "--timeout=120s")
    seconds = wait_until("another certificate of the logstore's health", differs(trial, address, shown), 240, 3)
    # As long as probes need to find a pod not ready, by the period and the failures that the chart gives them.
    time.sleep(30)
    trial.kubectl("delete", "job", "health-renewal")
    pods = trial.pods()
    assert all(is_ready(pod) for pod in pods.values())
    assert before == {name: restarts(pod) for name, pod in pods.items()}
    return (
        f"a logstore's health shows another certificate {seconds:.0f} s after its Secret was replaced; no pod restarted"
    )


def frozen(trial: Trial) -> str:
    """A process that hangs: the command gets no answer in time, so the pod is not ready, and then restarted."""
    name = next(iter(trial.pods("purgatory")))
    for pid in processes_of(name):
        os.kill(pid, signal.SIGSTOP)

    def pod() -> dict[str, object]:
        return trial.pods("purgatory")[name]

    began_s = time.monotonic()
    wait_until("the frozen pod not ready", lambda: not is_ready(pod()), 120)
    not_ready_s = time.monotonic() - began_s
    wait_until("the frozen pod restarted and ready", lambda: restarts(pod()) == 1 and is_ready(pod()), 360)
    return (
        f"the process of a purgatory was stopped (SIGSTOP): not ready after {not_ready_s:.0f} s, "
        f"restarted by its liveness probe and ready after {time.monotonic() - began_s:.0f} s"
    )


def processes_of(pod: str) -> list[int]:
    """The processes of Barnabas in a pod on this machine."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
            except OSError:
                continue
            if f"HOSTNAME={pod}".encode() in environment.split(b"\0") and b"barnabas_" in command:
                found.append(int(process.name))
    assert found, f"no process of {pod}"
    return found
