"""grpcurl at the operators' port of a secure cluster: it knows nothing of Barnabas but what reflection offers, and each
role is served what it may do (docs/operate/security.md).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.integration.running_cluster import RunningCluster
from tests.integration.test_ops_api import OPERATIONS

pytestmark = [pytest.mark.integration, pytest.mark.deep]
"""`test_inside` has the command line of Barnabas in these roles."""

OK = ""
DENIED = "PermissionDenied"
READS = ("ListNodes", "{}")
MOVES = ("PauseBalance", "{}")
CREATES = ("CreateTopic", '{"topic": "by-%s", "partitions": 1, "replication_factor": 1}')
SECONDS_MAX = 30

Grpcurl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, secure=True) as running:
        yield running


@pytest.fixture
def grpcurl(cluster: RunningCluster) -> Grpcurl:
    """Skips the test where it is not installed."""
    program = shutil.which("grpcurl")
    if program is None:
        pytest.skip("no grpcurl on PATH: `go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3`")
    secrets = cluster.directory.secrets_path

    def run(name: str, *words: str, data: str = "") -> subprocess.CompletedProcess[str]:
        certificate = str(secrets / f"{name}.pem")
        given = ["-cacert", str(secrets / "ca.crt")] + (["-cert", certificate, "-key", certificate] if name else [])
        given += ["-max-time", str(SECONDS_MAX)] + (["-d", data] if data else [])
        command = [str(program), *given, cluster.ops_address, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS_MAX, check=False)

    return run


@pytest.mark.parametrize(
    ("role", "read", "moved", "created"),
    [
        ("viewer", OK, DENIED, DENIED),
        ("operator", OK, OK, DENIED),
        ("admin", OK, OK, OK),
    ],
)
def test_each_role_is_served_what_it_may_do(grpcurl: Grpcurl, role: str, read: str, moved: str, created: str) -> None:
    name = f"operators/{role}"
    assert OPERATIONS in grpcurl(name, "list").stdout.split()
    for (method, data), expected in ((READS, read), (MOVES, moved), (CREATES, created)):
        answer = grpcurl(name, f"{OPERATIONS}/{method}", data=data.replace("%s", role))
        assert (answer.returncode == 0) == (expected == OK), answer.stderr
        assert expected in answer.stderr
    nodes = json.loads(grpcurl(name, f"{OPERATIONS}/ListNodes").stdout)["nodes"]
    assert {node["role"] for node in nodes} == {"controller", "gateway", "logstore", "purgatory"}


def test_a_certificate_of_no_role_reads_nothing(grpcurl: Grpcurl) -> None:
    """That of a gateway is by the same authority."""
    for words in (("list",), (f"{OPERATIONS}/ListNodes",)):
        refused = grpcurl("gateway", *words)
        assert refused.returncode != 0
        assert not refused.stdout
        assert DENIED in refused.stderr


def test_without_a_certificate_nothing_is_served(grpcurl: Grpcurl) -> None:
    for words in (("list",), (f"{OPERATIONS}/ListNodes",)):
        refused = grpcurl("", *words)
        assert refused.returncode != 0
        assert not refused.stdout
