"""The step `colocated`: a gateway beside each logstore, and their messages by a directory of the node."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.k8s.client_pod import client_pod
from tests.k8s.cluster import in_words, wait_until
from tests.k8s.load_process import clean
from tests.k8s.trial import Trial

USER = 10001
"""Of every container."""
RECORDS = 2000
RECORD_BYTES = 10_000
TRACED = "sendfile,read,readv,pread64,preadv,preadv2,recvfrom,recvmsg,sendto,sendmsg,write,writev"
READS_OF_FILES = ("pread64", "preadv", "preadv2")
POLICY = "cluster.addressPolicy"
DIRECTORY = "cluster.laneDirectory"


def colocated(trial: Trial) -> list[str]:
    """A gateway beside each logstore, messages by the node's directory; without the directory by the network."""
    if trial.cluster.node_tool is None:
        return ["not done: it needs a directory of the node, which is made on a node of its own alone"]
    level = "pod-security.kubernetes.io/enforce"
    namespace = ["kubectl", "label", "namespace", trial.namespace, "--overwrite"]
    trial.cluster.run(*namespace, f"{level}=privileged")
    home = Path(tempfile.mkdtemp(prefix="lanes-", dir=trial.volumes))
    lines = []
    with trial.load("beside") as reports:
        replace_gateways(trial, "deployment", **{POLICY: "colocated", DIRECTORY: str(home / "absent")})
        wait_until("three gateways", lambda: len(trial.ready("gateway")) == len(trial.pods("gateway")) == 3)
    lines.append(f"colocated, the node without the directory, under load: {clean(reports)}")
    assert opened(trial) == {}, opened(trial)
    with client_pod(trial) as client:
        lines.append(
            f"a pod, by the network: {client.round_trip('by-network', RECORDS, RECORD_BYTES)}; no lane was opened"
        )
        prepared = home / "prepared"
        prepared.mkdir(mode=0o700)
        os.chown(prepared, USER, USER)
        with trial.load("by-lane") as reports:
            trial.upgrade(**{DIRECTORY: str(prepared)})
        lines.append(f"the node with it, under load: {clean(reports)}")
        wait_until("lanes of all streams", lambda: opened(trial).keys() >= {"Exchange", "Read", "Replicate"}, 60)
        lines.append(
            f"lanes opened: {in_words([f'{stream} {count}' for stream, count in sorted(opened(trial).items())])}"
        )
        lines.append(beside(trial))
        with traced(trial) as summary:
            report = client.round_trip("by-directory", RECORDS, RECORD_BYTES)
        lines.append(f"a pod, by lanes: {report}")
        if summary:
            calls = counts(summary[0])
            assert calls.get("sendfile", 0) > 0, summary[0]
            assert not any(calls.get(name) for name in READS_OF_FILES), summary[0]
            counted = in_words([f"{name} {calls[name]}" for name in sorted(calls)])
            lines.append(f"`strace -c` of the gateways' processes meanwhile: {counted}")
    with trial.load("apart") as reports:
        replace_gateways(trial, "statefulset", **{POLICY: "per-broker-port", DIRECTORY: ""})
    lines.append(f"back to gateways anywhere, under load: {clean(reports)}")
    trial.cluster.run(*namespace, f"{level}=restricted")
    return lines


def replace_gateways(trial: Trial, kind: str, **values: str) -> None:
    """Change what the gateways are; those of before serve until the others are ready.

    Helm alone deletes the ones before the others are ready.
    """
    trial.kubectl("delete", kind, f"{trial.name}-gateway", "--cascade=orphan")
    before = trial.pods("gateway")
    trial.upgrade(**values)
    if kind == "deployment":
        # They come back as long as their ReplicaSet is there.
        labels = f"app.kubernetes.io/component=gateway,app.kubernetes.io/instance={trial.release}"
        trial.kubectl("delete", "replicaset", "--selector", labels)
    else:
        trial.kubectl("delete", "pod", *before)


def opened(trial: Trial) -> dict[str, int]:
    """How many lanes the pods have opened, by stream."""
    found: dict[str, int] = {}
    for name, pod in trial.pods().items():
        if "-etcd-" in name:
            continue
        text = trial.cluster.run("curl", "--silent", "--fail", f"http://{pod['status']['podIP']}:9404/metrics")
        for stream, count in re.findall(
            r'^barnabas_streams_lanes_opened_total\{[^}]*stream="(\w+)"[^}]*\} (\S+)', text, re.M
        ):
            if float(count):
                found[stream] = found.get(stream, 0) + int(float(count))
    return found


def beside(trial: Trial) -> str:
    """Every gateway is on its logstore's node, and is what a client of that broker comes to."""
    pods = trial.pods()
    for number in range(3):
        gateway, logstore = (pods[f"{trial.name}-{role}-{number}"] for role in ("gateway", "logstore"))
        assert gateway["spec"]["nodeName"] == logstore["spec"]["nodeName"]
        selector = f"kubernetes.io/service-name={trial.name}-broker-{number}"
        slices = trial.cluster.get("endpointslices", trial.namespace, selector)
        addresses = [address for each in slices for end in each["endpoints"] for address in end["addresses"]]
        assert addresses == [gateway["status"]["podIP"]], (number, addresses)
    return "gateway n is the only endpoint of broker n's Service, and on the node of logstore n"


@contextmanager
def traced(trial: Trial) -> Generator[list[str]]:
    """Count system calls of the gateways' processes while the block runs; the summary is there afterwards.

    Without strace there is none.
    """
    summary: list[str] = []
    if shutil.which("strace") is None:
        yield summary
        return
    output, log = trial.volumes / "calls", trial.volumes / "strace"
    attached = [argument for pid in processors(trial) for argument in ("-p", str(pid))]
    command = ["strace", "-c", "-f", "-o", str(output), "-e", f"trace={TRACED}", *attached]
    with log.open("wb") as errors:
        tracer = subprocess.Popen(command, stderr=errors)
    time.sleep(2)
    assert tracer.poll() is None, log.read_text()
    try:
        yield summary
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(60)
    summary.append(output.read_text())


def processors(trial: Trial) -> list[int]:
    """The gateways' processes in the pods on this machine."""
    found = []
    marker = f"POD_NAME={trial.name}-gateway-".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
            except OSError:
                continue
            if marker in environment and b"barnabas_gateway" in command:
                found.append(int(process.name))
    assert found
    return found


def counts(summary: str) -> dict[str, int]:
    """Calls by name, of the table that `strace -c` writes."""
    rows = [line.split() for line in summary.splitlines() if re.match(r"\s*\d+\.\d+ ", line)]
    return {row[-1]: int(row[3]) for row in rows if row[-1] != "total"}
