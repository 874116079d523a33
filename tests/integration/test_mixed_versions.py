"""The last release and this version in one cluster; `make mixed-versions` upgrades everything, and goes back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.checkouts import environment_of
from tests.mixed_versions.__main__ import SKIPPED
from tests.property.channel_messages import CODECS, to_proto, values, with_later_fields
from tests.releases import ROOT, releases
from tests.tiers import Cost, examples

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.deep]

LAST = releases()[-1]
RUN_SECONDS_MAX = 600
SERVICES = 4
RECORDS_MIN = 500

# Runs on the code of the last release, with what its own tests know of its messages.
SCANS = """
import json, sys
from tests.property.channel_messages import CODECS
from tests.property.test_channel_packing import assert_scans_as_protobuf
codecs = {codec.dataclass_type.__name__: codec for codec in CODECS}
count = 0
for name, data in json.load(sys.stdin):
    if name in codecs:
        codecs[name].scan(bytes.fromhex(data))
        assert_scans_as_protobuf(codecs[name], bytes.fromhex(data))
        count += 1
print(count)
"""


def messages_of_now(codec: Any) -> list[bytes]:
    """As this version sends them, and as a later one may."""
    packed: list[bytes] = []

    @seed(1)
    @settings(examples(Cost.HIGH), database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        value = data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR))
        packed.extend((codec.pack(value), with_later_fields(to_proto(value, codec.proto_class))))

    collect()
    return packed


def needs_history() -> None:
    reason = LAST.why_not_here()
    if reason is not None:
        pytest.skip(reason)


def test_the_last_release_reads_what_this_version_sends(tmp_path: Path) -> None:
    """Its scanners skip the fields that have come since."""
    needs_history()
    LAST.extract(tmp_path, "barnabas", "protos", "services", "tests")
    sent = [(codec.dataclass_type.__name__, data.hex()) for codec in CODECS for data in messages_of_now(codec)]
    done = subprocess.run(
        [sys.executable, "-c", SCANS],
        input=json.dumps(sent),
        env={**os.environ, **environment_of(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == len(sent)


@pytest.mark.timeout(RUN_SECONDS_MAX + 30)
@pytest.mark.minutes(
    "a cluster of the last release, and four restarts, each until a group has gone on; "
    "test_the_last_release_reads_what_this_version_sends is here, and test_rolling_groups restarts the same processes"
)
def test_one_process_of_each_kind_is_upgraded_under_load(tmp_path: Path) -> None:
    needs_history()
    done = subprocess.run(
        [sys.executable, "-m", "tests.mixed_versions", "--short"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode != SKIPPED, done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.fullmatch(
        r"(\d+) restarts, (\d+) acknowledged, lost 0, duplicated 0; read (\d+) times .*; skipped 0, jumped 0, .*",
        done.stdout.splitlines()[-1],
    )
    assert last is not None, done.stdout
    restarts, acknowledged, reads = map(int, last.groups())
    assert restarts == SERVICES
    assert reads >= acknowledged >= RECORDS_MIN
