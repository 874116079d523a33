"""A log on a real volume that runs full: a tmpfs of 32 MiB, in a mount namespace of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.deep]

MOUNT = "mount -t tmpfs -o size=32m tmpfs {volume} && exec {python} -m tests.integration.full_disk_script {volume}"


def test_a_log_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("no mount namespaces for users here")
    command = MOUNT.format(volume=tmp_path, python=sys.executable)
    ended = subprocess.run(["unshare", "-rm", "sh", "-c", command], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("took ")
