"""A transaction that stays open while its log rolls has its first offset in a closed segment. The state that purgatory
is sent then takes that segment's index from its file, and a file that could not be opened ended the logstore.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.ports.disk import DiskErrorKind
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, WATCH, Host, batch, topic
from tests.unit.logstore.service.test_turns import stop
from tests.unit.logstore.storage.test_transactions import write

CONFIGS = {"segment.bytes": str(1 << 20), "index.interval.bytes": "0"}
INDEX = f"{0:020d}.index"


def restarted(disk: DiskModel) -> Host:
    """A leader whose closed segment has a record, and then a transaction that is open."""
    host = Host(disk)
    assert host.lead(topic(0, 0, configs=CONFIGS)).partition_errors == []
    host.greet(EXCHANGE, WATCH)
    host.append()
    (partition,) = host.core.partitions
    write(partition.log, 0)
    host.settle()
    host.append(batch(value_bytes=1_048_450))
    host.settle()
    assert stop(host) == []
    again = Host(disk)
    assert again.lead(topic(2, 2, configs=CONFIGS)).partition_errors == []
    again.greet(EXCHANGE, WATCH)
    again.settle()
    disk.close_files()
    return again


@pytest.mark.parametrize(
    "ask", [lambda host: host.watch(), lambda host: [host.query_state().state]], ids=["a watch", "a question"]
)
def test_it_takes_the_directory_offline_and_not_the_process(ask: Callable[[Host], list[object]]) -> None:
    disk = DiskModel()
    host = restarted(disk)
    disk.faults.append(Fault("open", INDEX, DiskErrorKind.IO))
    (state,) = ask(host)
    assert (state.online, state.leading) == (False, False)
    host.turn()
    (partition,) = host.core.partitions
    assert not partition.online


def test_without_a_fault_it_is_where_the_transaction_begins() -> None:
    (state,) = restarted(DiskModel()).watch()
    assert (state.topic_id, state.last_stable_offset, state.high_watermark) == (TOPIC_ID, 1, 3)
    assert 0 < state.last_stable_position < state.high_watermark_position
