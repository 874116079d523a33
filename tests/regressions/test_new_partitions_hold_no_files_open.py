"""The first writes to 10,000 partitions: the second half took four times as long as the first.

`partition.metadata` of each new partition waited for its first flush with an open file, as everything that is written
and not flushed does. With as many open logs, the process reached three quarters of the files that it may open: from
then on each file that was opened cost the flush of another one, on the event loop.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.checkpoints import PARTITION_METADATA
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.flushing import flush
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.shell.posix_disk import PosixDisk

PARTITIONS = 20
TOPIC_ID = bytes(range(16))


def test_a_partition_without_records_holds_no_file_that_may_not_be_closed(tmp_path: Path) -> None:
    disk, unique = PosixDisk(), count()
    directory = LogDirectory.open(
        disk,
        str(tmp_path),
        cluster_id="cluster",
        node_id=1,
        kernel_boot_id="boot",
        new_directory_id=TOPIC_ID,
        unique_name=lambda: f"{next(unique):032x}",
    )
    assert isinstance(directory, LogDirectory)
    logs = [directory.create(("t", number), TOPIC_ID, TopicConfig()) for number in range(PARTITIONS)]
    assert not [path for path, file in disk._files._files.items() if file.is_unflushed]
    for log in logs:
        assert isinstance(log, PartitionLog)
        path = f"{log.directory}/{PARTITION_METADATA}"
        content = disk.read_file(path)
        effect = log.flushes.begin(0)
        assert [(write.path, write.content) for write in effect.writes] == [(path, content)]
        assert path in effect.files
        flush(disk, effect)
        assert disk.read_file(path) == content
