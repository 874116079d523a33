"""Values in etcd under a key that is not theirs, or of other types: deleting the key stopped the controller.

Found by `make fuzz` (cluster_keys). The controller of every pod came to the same event and ended the same way.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import (
    DeletionRecord,
    GatewayRegistration,
    Keys,
    MemberRecord,
    PartitionChunk,
    Role,
    TopicRecord,
    encode_record,
    encode_registration,
)
from barnabas.ports.etcd import KeyValue, WatchBatch, WatchEvent
from barnabas_controller.core.image import ControllerImage

KEYS = Keys()
TOPIC_ID, OTHER_ID = bytes(16), bytes(range(16))
MISPLACED = {
    KEYS.topic("t"): encode_record(TopicRecord("other", TOPIC_ID, 1, 1, {})),
    KEYS.chunk(TOPIC_ID, 0): encode_record(PartitionChunk(OTHER_ID, 0, ())),
    KEYS.deletion(TOPIC_ID): encode_record(DeletionRecord("t", OTHER_ID, 1)),
    KEYS.member(Role.LOGSTORE, "1"): encode_record(MemberRecord(Role.LOGSTORE, "2", {})),
    KEYS.registration(Role.GATEWAY, "g"): encode_registration(GatewayRegistration("h", "i")),
    KEYS.registration(Role.LOGSTORE, "1"): b'{"node_id":"1","incarnation":"i","directory_id":"d","data_address":"a",'
    b'"control_address":"b"}',
    KEYS.topic("u"): b'{"topic":["u"],"topic_id":"'
    + b"00" * 16
    + b'","partitions":1,"replication_factor":1,"configs":{}}',
    KEYS.producer_ids: b'{"next_producer_id":"many"}',
    KEYS.cluster: b"[" * 100_000,
}


@pytest.mark.parametrize("key", MISPLACED)
def test_it_is_unreadable_and_can_be_deleted(key: str) -> None:
    image = ControllerImage(KEYS)
    image.apply(WatchBatch(1, (WatchEvent(KeyValue(key, MISPLACED[key], 1, 1)),)))
    assert list(image.unreadable) == [key]
    image.apply(WatchBatch(2, (WatchEvent(KeyValue(key, b"", 0, 2), deleted=True),)))
    assert image.unreadable == {}
