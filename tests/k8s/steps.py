"""The steps of the trial, in their order. Each says what it has seen, or raises AssertionError with what is wrong."""

from __future__ import annotations

import json
import shutil
import time

from tests.k8s import images
from tests.k8s.cert_manager import cert_manager
from tests.k8s.client_pod import client_pod
from tests.k8s.cluster import in_words, wait_until
from tests.k8s.colocated import colocated
from tests.k8s.given_secrets import given_secrets
from tests.k8s.health import health
from tests.k8s.load_process import clean
from tests.k8s.manifests import manifests
from tests.k8s.metrics import metrics
from tests.k8s.secure import handshakes, secure
from tests.k8s.trial import TAG, Trial, is_ready

ROLLED = {
    "controller": "deployment",
    "purgatory": "deployment",
    "gateway": "deployment",
    "logstore": "statefulset",
    "etcd": "statefulset",
}


def build(trial: Trial) -> list[str]:
    """Images of every role."""
    if trial.cluster.node_tool is None:
        return ["not done: an existing cluster pulls what was pushed"]
    sizes = images.build(trial.cluster, TAG)
    return [f"images on top of their base: {in_words([f'{role} {size}' for role, size in sizes.items()])}"]


def install(trial: Trial) -> list[str]:
    """Into an empty namespace that admits nothing but confined pods."""
    trial.create_namespace()
    started_s = time.monotonic()
    trial.install()
    seconds = time.monotonic() - started_s
    restarts = sum(
        status["restartCount"] for pod in trial.pods().values() for status in pod["status"]["containerStatuses"]
    )
    nodes = json.loads(trial.barnabas("nodes", "list", "--role", "logstore", "--json"))
    names = [str(node["id"]) for node in (nodes["nodes"] if isinstance(nodes, dict) else nodes)]
    return [
        f"`helm install --wait` took {seconds:.0f} s; {len(trial.ready())} pods ready, {restarts} restarts",
        f"the namespace enforces the restricted Pod Security Standard; the release is called `{trial.release}`",
        f"`kubectl exec deployment/{trial.name}-controller -- barnabas nodes list` names logstores {in_words(names)}",
    ]


def outside(trial: Trial) -> list[str]:
    """Produce and consume from outside, by node ports."""
    with trial.load("outside") as reports:
        time.sleep(5)
    return [f"by {trial.bootstrap} and a port per broker: {clean(reports)}"]


def roll(trial: Trial) -> list[str]:
    """Every pod is replaced, role by role, under load."""
    lines = []
    begun: dict[float, str] = {}
    with trial.load("rolled") as reports:
        for role, kind in ROLLED.items():
            begun[time.time()] = role
            lines.append(replace_pods(trial, role, kind))
    reported = clean(reports)
    silence_began = reports[0].figures["longest_silence_began"]
    replaced = [role for role_began, role in begun.items() if role_began <= silence_began]
    return [*lines, f"{reported} (when the {replaced[-1]} was replaced)" if replaced else reported]


def replace_pods(trial: Trial, role: str, kind: str) -> str:
    """Restart every pod of a role; return what was seen. At most one of a StatefulSet is not ready at a time."""
    before = {name: pod["metadata"]["uid"] for name, pod in trial.pods(role).items()}
    started_s = time.monotonic()
    with trial.watched(role) as samples:
        trial.kubectl("rollout", "restart", f"{kind}/{trial.name}-{role}")
        trial.kubectl("rollout", "status", f"{kind}/{trial.name}-{role}", "--timeout=300s")
    after = {name: pod["metadata"]["uid"] for name, pod in trial.pods(role).items() if is_ready(pod)}
    assert not set(before.values()) & set(after.values()), f"a {role} was not replaced"
    fewest = min(samples, default=len(before))
    assert fewest >= len(before) - (kind == "statefulset"), f"{fewest} of {len(before)} {role} pods were ready"
    seconds = time.monotonic() - started_s
    return f"{role}: {len(before)} pods in {seconds:.0f} s, never fewer than {fewest} ready"


def failed_upgrade(trial: Trial) -> list[str]:
    """An image that doesn't exist, under --atomic: rolled back without manual intervention."""
    with trial.load("misled") as reports:
        refusal = trial.refused_upgrade("--atomic", "--timeout", "90s", **{"image.tag": "there-is-none"})
        assert "rolled back" in refusal, refusal
        seconds = trial.wait_ready()
        tags = {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in trial.pods("logstore").values()}
        assert tags == {TAG}, tags
    return [
        f"helm said: …{refusal[-110:]}",
        f"{seconds:.0f} s after it every pod was ready again with the image before; no pod was deleted by hand",
        clean(reports),
    ]


def evict(trial: Trial) -> list[str]:
    """Two evictions of logstores at once: the budget lets one pass, and the next when the first is in sync."""

    def body(pod: str) -> str:
        return json.dumps(
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": trial.namespace}}
        )

    def path(pod: str) -> str:
        return f"/api/v1/namespaces/{trial.namespace}/pods/{pod}/eviction"

    first, second = f"{trial.name}-logstore-0", f"{trial.name}-logstore-1"
    with trial.load("evicted") as reports:
        trial.kubectl("create", "--raw", path(first), "--filename", "-", text=body(first))
        refusal = trial.cluster.refused(
            "kubectl", "create", "--raw", path(second), "--filename", "-", text=body(second)
        )
        assert "disruption budget" in refusal, refusal
        seconds = wait_until("the evicted pod back in sync", lambda: len(trial.ready("logstore")) == 3)
        trial.kubectl("create", "--raw", path(second), "--filename", "-", text=body(second))
        wait_until("the second one too", lambda: len(trial.ready("logstore")) == 3)
    return [
        f"the second eviction: {refusal[-80:]}",
        f"back in sync after {seconds:.0f} s, then it passed",
        clean(reports),
    ]


def scale(trial: Trial) -> list[str]:
    """Gateways up and down; a fourth logstore, filled, drained and taken away."""
    lines = []
    with trial.load("scaled") as reports:
        trial.upgrade(**{"gateway.replicas": "4"})
        assert len(trial.ready("gateway")) == 4
        trial.upgrade(**{"gateway.replicas": "2"})
        wait_until("two gateways", lambda: len(trial.pods("gateway")) == 2)
        lines.append("gateways 2 → 4 → 2")
        trial.upgrade(**{"logstore.replicas": "4"})
        assert len(trial.ready("logstore")) == 4
        trial.create_topic("wide", partitions=12)
        wait_until("replicas on logstore 3", lambda: trial.partitions_with(3) > 0)
        lines.append(f"logstores 3 → 4: the new one has {trial.partitions_with(3)} replicas of a new topic")
        refusal = trial.refused_upgrade(**{"logstore.replicas": "3"})
        assert "removes logstore 3" in refusal, refusal
        lines.append(f"helm refused to go back to 3: …{refusal[refusal.find('logstore.replicas=3') :]}")
        trial.ask("DrainNode", nodeId=3, moveReplicas=True)
        seconds = wait_until("logstore 3 drained", lambda: _is_drained(trial, 3))
        assert trial.partitions_with(3) == 0
        trial.upgrade(**{"logstore.replicas": "3", "logstore.drained": "{3}"})
        wait_until("three logstores", lambda: len(trial.pods("logstore")) == 3)
        trial.barnabas("nodes", "remove", "3")
        lines.append(f"drained by the ops API in {seconds:.0f} s, named in logstore.drained, taken away, and forgotten")
    return [*lines, clean(reports)]


def _is_drained(trial: Trial, node_id: int) -> bool:
    drains = trial.ask("ListDrains").get("drains", [])
    return any(each.get("nodeId", 0) == node_id and each.get("done", False) for each in drains)


def lose_volume(trial: Trial) -> list[str]:
    """A pod and its volume are gone: the logstore comes back empty and catches up."""
    pod, claim = f"{trial.name}-logstore-1", f"data-{trial.name}-logstore-1"
    with trial.load("survived") as reports:
        had = trial.partitions_with(1)
        lost = trial.kubectl("get", "pvc", claim, "--output", "jsonpath={.spec.volumeName}")
        trial.kubectl("delete", "pvc", claim, "--wait=false")
        trial.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        if trial.cluster.node_tool is not None:
            directory = trial.directory_of(lost)
            trial.cluster.run("kubectl", "delete", "persistentvolume", lost, "--wait=false")
            wait_until("the claim gone", lambda: lost not in trial.kubectl("get", "pvc", "--output", "wide"))
            shutil.rmtree(directory)
        seconds = wait_until("the logstore in sync again", lambda: len(trial.ready("logstore")) == 3, timeout_s=300)
        bound = trial.kubectl("get", "pvc", claim, "--output", "jsonpath={.spec.volumeName}")
        assert bound != lost
        assert trial.partitions_with(1) == had
    return [f"in sync again with all {had} replicas {seconds:.0f} s later, on an empty volume", clean(reports)]


def members(trial: Trial) -> list[str]:
    """Three etcd members with TLS alone: one is killed, all are replaced, under load; a second release uses them."""
    trial.create_namespace()
    trial.listeners, trial.overrides = {}, {"etcd.bundled.replicas": "3"}
    trial.install()
    etcd = trial.pods("etcd")
    assert len(etcd) == 3
    own = trial.write_secret(f"{trial.name}-etcd-client-tls")
    peer = trial.write_secret(f"{trial.name}-etcd-tls")
    for pod in etcd.values():
        for directory, port in ((own, 2379), (peer, 2380)):
            address = f"{pod['status']['podIP']}:{port}"
            certificate = ["-cert", f"{directory}/tls.crt", "-key", f"{directory}/tls.key"]
            assert handshakes(trial, address, *certificate), f"{address} refuses a certificate of its authority"
            assert not handshakes(trial, address), f"{address} takes a caller without a certificate"
    lines = [
        "three members: ports 2379 and 2380 of each take a certificate of their authority, and no caller without one"
    ]
    with trial.load("of-three") as reports:
        victim = f"{trial.name}-etcd-1"
        trial.kubectl("delete", "pod", victim, "--grace-period=0", "--force")
        seconds = wait_until("three members", lambda: len(trial.ready("etcd")) == 3)
        lines.append(f"one was killed: three ready again after {seconds:.0f} s")
        lines.append(replace_pods(trial, "etcd", "statefulset"))
    lines.append(clean(reports))
    lines.append(second_release(trial))
    trial.clean_up()
    return lines


def second_release(trial: Trial) -> str:
    """Another release, to which the etcd of the first is an external one with TLS."""
    other = Trial(trial.cluster, trial.namespace, release="z")
    other.listeners = {"listeners": [{"name": "PLAINTEXT", "protocol": "PLAINTEXT", "port": 9092}]}
    addresses = [f"{trial.name}-etcd-{number}.{trial.name}-etcd:2379" for number in range(3)]
    other.overrides = {
        "etcd.bundled.enabled": "false",
        "etcd.external.endpoints": f"{{{','.join(addresses)}}}",
        "etcd.external.tls.existingSecret": f"{trial.name}-etcd-client-tls",
        "etcd.external.tls.clientCertificate": "true",
        "etcd.prefix": "/second/",
    }
    other.install()
    assert not other.pods("etcd"), "it has an etcd of its own"
    with client_pod(other) as client:
        reported = client.round_trip("of-the-second", 1000, 1000)
    topics = [{each["topic"] for each in release.ask("ListTopics")["topics"]} for release in (trial, other)]
    assert "of-three" in topics[0] - topics[1], topics
    assert "of-the-second" in topics[1] - topics[0], topics
    return f"a second release, to which this etcd is external: {reported}; neither release has the other's topics"


def uninstall(trial: Trial) -> list[str]:
    """Nothing is left but the volumes' claims, and the Secrets and the memory of the jobs."""
    trial.cluster.run("helm", "uninstall", trial.release, "--namespace", trial.namespace, "--wait", "--timeout", "4m")
    wait_until("every pod gone", lambda: not trial.pods())
    kinds = "all,configmap,secret,serviceaccount,pdb,networkpolicy,hpa,role,rolebinding,endpointslice"
    left = trial.cluster.get(kinds, trial.namespace, f"app.kubernetes.io/instance={trial.release}")
    left = [each for each in left if each["metadata"]["labels"]["app.kubernetes.io/managed-by"] != "barnabas"]
    assert not left, in_words([f"{each['kind']} {each['metadata']['name']}" for each in left])
    secrets = trial.cluster.get("secrets", trial.namespace, "app.kubernetes.io/managed-by=barnabas")
    claims = [each["metadata"]["name"] for each in trial.cluster.get("pvc", trial.namespace)]
    assert claims, "the data went too"
    trial.clean_up()
    return [f"left: {in_words(claims)}; {len(secrets)} Secrets"]


STEPS = {
    each.__name__: each
    for each in (
        build,
        install,
        outside,
        secure,
        colocated,
        metrics,
        health,
        roll,
        failed_upgrade,
        evict,
        scale,
        lose_volume,
        uninstall,
        members,
        cert_manager,
        given_secrets,
        manifests,
    )
}
