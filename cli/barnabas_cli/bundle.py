"""`barnabas doctor --bundle`: collect what a bug report needs in one file of bounded size.

A bundle is written even if it is incomplete: `manifest.json` names each part that is missing, with the reason. It
contains no secrets: values of keys that look like secrets are left out of configurations, and records are never read.
Logs are copied unchanged; the manifest says so.
"""

from __future__ import annotations

import io
import json
import ssl
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from barnabas import __version__
from barnabas_cli import host_facts
from barnabas_cli.formatting import plain
from barnabas_cli.local.etcd import ask_etcd_over_http
from barnabas_cli.local.layout import ClusterDirectory, ClusterLayout
from barnabas_cli.local.secrets import local_access
from barnabas_cli.local.supervision import restart_events_path
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_cli.operator_access import OperatorAccess
from barnabas_cli.redaction import redacted_properties
from barnabas_protos.controller.v1 import operations_pb2 as pb

ENTRY_BYTES_MAX: Final = 4 << 20
BUNDLE_BYTES_MAX: Final = 64 << 20
"""Limit before compression."""
LOG_BYTES_MAX: Final = 1 << 20
ANSWER_SECONDS_MAX: Final = 5.0
PARTITIONS_MAX: Final = 10_000
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""What OpenSSL says of an answer in the clear."""
GROUPS_MAX: Final = 100
GROUPS_SECONDS_MAX: Final = 15.0

_LOCAL_ONLY: Final = "the cluster does not run here, or was not started by `barnabas up`"


class Bundle:
    """The entries collected, by name, and the reasons for those that are missing."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.truncated: dict[str, int] = {}
        self.missing: dict[str, str] = {}
        self._bytes = 0

    def add_file(self, name: str, data: bytes) -> None:
        """Add an entry: truncated if it is too large, left out if the bundle is full."""
        kept = data[: min(ENTRY_BYTES_MAX, BUNDLE_BYTES_MAX - self._bytes)]
        if data and not kept:
            self.missing[name] = f"the bundle is full ({BUNDLE_BYTES_MAX >> 20} MiB)"
            return
        if len(kept) < len(data):
            self.truncated[name] = len(data)
        self.entries[name] = kept
        self._bytes += len(kept)

    def gather(self, name: str, make: Callable[[], bytes]) -> None:
        """Add what `make` returns, or record in the manifest why it failed: a partial bundle helps too."""
        try:
            self.add_file(name, make())
        except Exception as error:
            self.missing[name] = " ".join(f"{type(error).__name__}: {error}".split())

    def write(self, path: Path) -> None:
        """Write the zip file. Raises OSError."""
        manifest = {
            "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "barnabas": __version__,
            "entries": {name: len(data) for name, data in sorted(self.entries.items())},
            "truncated_from_bytes": self.truncated,
            "missing": self.missing,
            "secrets": "values of keys that look like secrets are left out; logs are unchanged",
        }
        with tarfile.open(path, "w:gz") as archive:
            for name, data in {"manifest.json": _json(manifest), **self.entries}.items():
                info = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
                info.size, info.mtime, info.mode = len(data), int(time.time()), 0o600
                archive.addfile(info, io.BytesIO(data))


def gather_bundle(directory: ClusterDirectory, access: OperatorAccess | None) -> Bundle:
    """Collect a bundle for the cluster at that controller, or for the one in the directory. Takes up to a minute."""
    bundle = Bundle()
    bundle.gather("versions.json", lambda: _json(host_facts.versions()))
    bundle.gather("host.json", lambda: _json(host_facts.facts(directory.path)))
    layout = None if access is not None and access.address else directory.read_layout()
    if layout is not None:
        access = local_access(directory, layout)
        _gather_local(bundle, directory)
        for name in ("health", "version", "metrics"):
            bundle.gather(f"etcd/{name}", partial(_etcd, directory, layout, name))
    else:
        for name in ("status.json", "logs", "configs", "etcd"):
            bundle.missing[name] = _LOCAL_ONLY
    if access is None or not access.address:
        bundle.missing["cluster"] = f"no cluster in {directory.path}, and no --address is given"
    else:
        _gather_described(bundle, access)
    return bundle


def _gather_local(bundle: Bundle, directory: ClusterDirectory) -> None:
    bundle.gather("status.json", lambda: _status(directory))
    bundle.gather("layout.json", directory.layout_path.read_bytes)
    for path in sorted((directory.path / "conf").glob("*.properties")):
        bundle.gather(f"configs/{path.name}", partial(_redacted, path))
    if restart_events_path(directory).exists():
        bundle.gather("restarts.jsonl", restart_events_path(directory).read_bytes)
    for path in sorted((directory.path / "logs").glob("*.log*")):
        bundle.gather(f"logs/{path.name}", partial(_tail, path))


def _status(directory: ClusterDirectory) -> bytes:
    import msgspec

    from barnabas_cli.local.cluster import existing_cluster
    from barnabas_cli.local.status import inspect

    return msgspec.json.format(msgspec.json.encode(inspect(existing_cluster(directory))), indent=2)


def _redacted(path: Path) -> bytes:
    return redacted_properties(path.read_text()).encode()


def _tail(path: Path) -> bytes:
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
        return log.read(LOG_BYTES_MAX)


def _gather_described(bundle: Bundle, access: OperatorAccess) -> None:
    with OperationsClient(access.address, ANSWER_SECONDS_MAX, access) as operations:
        nodes: list[pb.Node] = []
        for name, describe in _descriptions(operations, nodes):
            bundle.gather(f"cluster/{name}.json", partial(_described, describe))
        for node in nodes:
            if node.role == "logstore" and node.alive:
                bundle.gather(f"cluster/configs-logstore-{node.id}.json", partial(_configs, operations, int(node.id)))
            name = f"metrics/{node.role}-{node.id}.txt"
            if "metrics" in node.addresses:
                bundle.gather(name, partial(_scrape, node.addresses["metrics"], access))
            else:
                bundle.missing[name] = "it has no metrics address"


def _descriptions(operations: OperationsClient, nodes: list[pb.Node]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Ask the controller for the entries. The first one fills `nodes`."""

    def cluster() -> object:
        found = operations.describe_cluster()
        nodes.extend(found.nodes)
        return plain(found)

    def groups() -> object:
        listed = operations.ask(lambda stub: stub.ListGroups, pb.ListGroupsRequest(page_size=GROUPS_MAX))
        found = plain(listed)
        until_s = time.monotonic() + GROUPS_SECONDS_MAX
        described = found["described"] = []
        for each in listed.groups:
            if time.monotonic() > until_s:
                break
            described.append(_described_group(operations, each.group_id))
        return found

    yield "describe", cluster
    yield (
        "history",
        lambda: plain(
            operations.ask(lambda stub: stub.DescribeControllerHistory, pb.DescribeControllerHistoryRequest())
        ),
    )
    yield "drains", lambda: plain(operations.ask(lambda stub: stub.ListDrains, pb.ListDrainsRequest()))
    yield (
        "topics",
        lambda: plain(operations.ask(lambda stub: stub.ListTopics, pb.ListTopicsRequest(page_size=PARTITIONS_MAX))),
    )
    yield (
        "partitions",
        lambda: plain(
            operations.ask(lambda stub: stub.ListPartitions, pb.ListPartitionsRequest(page_size=PARTITIONS_MAX))
        ),
    )
    yield (
        "reassignments",
        lambda: plain(operations.ask(lambda stub: stub.ListReassignments, pb.ListReassignmentsRequest())),
    )
    yield "groups", groups


def _described_group(operations: OperationsClient, group_id: str) -> dict[str, Any]:
    """Describe a group. If its coordinator is unavailable, only this group is missing."""
    try:
        return plain(operations.ask(lambda stub: stub.DescribeGroup, pb.DescribeGroupRequest(group_id=group_id)))
    except OperationsError as error:
        return {"group_id": group_id, "error": str(error)}


def _described(describe: Callable[[], object]) -> bytes:
    return _json(describe())


def _configs(operations: OperationsClient, node_id: int) -> bytes:
    request = pb.DescribeConfigsRequest(broker=node_id, only_set=True)
    return _json(plain(operations.ask(lambda stub: stub.DescribeConfigs, request)))


def _etcd(directory: ClusterDirectory, layout: ClusterLayout, name: str) -> bytes:
    return ask_etcd_over_http(directory, layout, name, ANSWER_SECONDS_MAX)[:ENTRY_BYTES_MAX]


def _scrape(address: str, access: OperatorAccess) -> bytes:
    """Return the metrics at an address: by TLS with the operator's certificate, if there is one and TLS is there."""
    files = access.tls
    if not files.authority:
        return _fetch(f"http://{address}/metrics")
    context = ssl.create_default_context(cafile=files.authority)
    if files.certificate:
        context.load_cert_chain(files.certificate, files.key)
    try:
        return _fetch(f"https://{address}/metrics", context)
    except urllib.error.URLError as error:
        if getattr(error.reason, "reason", "") not in _NO_TLS:
            raise
    return _fetch(f"http://{address}/metrics")


def _fetch(url: str, context: ssl.SSLContext | None = None) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(url, timeout=ANSWER_SECONDS_MAX) as response:
        data: bytes = response.read(ENTRY_BYTES_MAX)
        return data


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()
