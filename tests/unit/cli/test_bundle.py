"""What goes into a bundle for a bug report: bounded, without secrets, and as much as can be had."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from barnabas_cli import bundle as bundles
from barnabas_cli.__main__ import main
from barnabas_cli.bundle import Bundle, _described_group, gather_bundle
from barnabas_cli.local.layout import ClusterDirectory, new_layout
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_cli.redaction import REDACTED, redacted_properties


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("listeners=127.0.0.1:9092", "listeners=127.0.0.1:9092"),
        ("etcd.password=hunter2", f"etcd.password={REDACTED}"),
        ("  ssl.keystore.PASSWORD : hunter2", f"ssl.keystore.PASSWORD={REDACTED}"),
        ("sasl.jaas.config=a \\\nhunter2 \\\nhunter2\nnode.id=1", f"sasl.jaas.config={REDACTED}\nnode.id=1"),
        ("etcd.endpoints=https://root:hunter2@etcd:2379", f"etcd.endpoints=https://{REDACTED}@etcd:2379"),
        ("log.dirs=/a,\\\n/b", "log.dirs=/a,\\\n/b"),
        ("# the password is elsewhere", "# the password is elsewhere"),
        ("#etcd.password=hunter2", f"#etcd.password={REDACTED}"),
        ("#   user=root password=hunter2;", f"#   user=root password={REDACTED}"),
        ("etcd.endpoints=https://root:hunter2@hunter2@etcd", f"etcd.endpoints=https://{REDACTED}@etcd"),
    ],
)
def test_secrets_are_left_out(line: str, reported: str) -> None:
    assert redacted_properties(line + "\n") == reported + "\n"
    assert "hunter2" not in redacted_properties(line)


def test_what_is_too_large_is_cut_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "ENTRY_BYTES_MAX", 10)
    monkeypatch.setattr(bundles, "BUNDLE_BYTES_MAX", 15)
    bundle = Bundle()
    for name in ("first", "second", "third"):
        bundle.add_file(name, b"x" * 20)
    assert {name: len(data) for name, data in bundle.entries.items()} == {"first": 10, "second": 5}
    assert bundle.truncated == {"first": 20, "second": 20}
    assert list(bundle.missing) == ["third"]


def test_a_cluster_that_is_down_leaves_what_is_on_disk_and_names_the_rest(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path / "data")
    layout = new_layout(1100, 1)
    directory.write_layout(layout)
    for path, text in (
        (directory.config_path("gateway"), "gateway.id=gateway\nssl.key.password=hunter2\n"),
        (directory.log_path("gateway"), "the last words\n"),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    target = tmp_path / "report.tar.gz"
    answer = CliRunner().invoke(
        main, ["doctor", "--bundle", str(target), "--data-dir", str(directory.path)], env={"BARNABAS_CONTROLLER": ""}
    )
    assert answer.exit_code == 0, answer.output
    with tarfile.open(target) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    manifest = json.loads(found.pop("report/manifest.json"))
    assert set(manifest["entries"]) == {name.removeprefix("report/") for name in found}
    assert {"cluster/describe.json", "etcd/health"} <= set(manifest["missing"])
    assert "can't be reached" in manifest["missing"]["cluster/describe.json"]
    assert found["report/logs/gateway.log"] == b"the last words\n"
    assert not any(b"hunter2" in data for data in found.values())
    assert json.loads(found["report/host.json"])["limits"]["open_files"]


def test_without_any_cluster_there_are_the_facts_of_the_host(tmp_path: Path) -> None:
    bundle = gather_bundle(ClusterDirectory(tmp_path / "nowhere"), None)
    assert set(bundle.entries) == {"versions.json", "host.json"}
    assert "no --address is given" in bundle.missing["cluster"]


class WithoutCoordinators(OperationsClient):
    def ask(self, *_: object) -> NoReturn:
        raise OperationsError("group 'g' has no coordinator")


def test_a_group_without_a_description_takes_no_other_along() -> None:
    described = _described_group(WithoutCoordinators("127.0.0.1:1"), "g")
    assert described == {"group_id": "g", "error": "group 'g' has no coordinator"}
