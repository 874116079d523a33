"""What the real clients were recorded with, and the simulated ones are held against."""

from __future__ import annotations

from tests.sim.clients.producers.scripted_broker import Round, Script

_NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"
_GAP = "OUT_OF_ORDER_SEQUENCE_NUMBER"
_MANY = 5

SCRIPTS = [
    Script("everything is written", []),
    Script("one record each", [], records=1),
    Script(
        "not the leader in the middle of the pipeline",
        [Round({0: ["ok", *[_NOT_LEADER] * _MANY]}, leaders={0: 2})],
        leaders=(1,),
        has_hints=False,
    ),
    Script(
        "not the leader in the middle of the pipeline, and who is",
        [Round({0: ["ok", *[_NOT_LEADER] * _MANY]}, leaders={0: 2})],
    ),
    Script(
        "not the leader, after everything was written",
        [Round({0: [f"+{_NOT_LEADER}"] * _MANY}, leaders={0: 2})],
    ),
    Script(
        "not the leader, for all partitions of a broker",
        [Round({0: [_NOT_LEADER] * _MANY, 1: [_NOT_LEADER] * _MANY}, leaders={0: 2, 1: 2})],
    ),
    Script(
        "a gap behind what was written and parked",
        [Round({0: [f"+{_NOT_LEADER}", *[_GAP] * _MANY]}, leaders={0: 2})],
    ),
    Script(
        "a gap while another partition was written and parked",
        [Round({0: [_NOT_LEADER, *[_GAP] * _MANY], 1: [f"+{_NOT_LEADER}"] * _MANY}, leaders={0: 2, 1: 2})],
    ),
    Script(
        "what follows is written where its predecessor is not",
        [Round({0: [_NOT_LEADER, "ok", "ok", "ok", "ok"]})],
    ),
    Script(
        "what follows is written, and its predecessor is a gap for ever after",
        [Round({0: [_NOT_LEADER, "ok", "ok", "ok", "ok"]}), *[Round({0: [_GAP]})] * 3],
    ),
    Script("a gap at once", [Round({0: [_GAP] * _MANY})]),
    Script("a gap after a success", [Round({0: ["ok", *[_GAP] * _MANY]})]),
    Script("duplicates", [Round({0: ["DUPLICATE_SEQUENCE_NUMBER", "ok"]})]),
    Script(
        "timed out in the middle, though written",
        [Round({0: ["ok", "+REQUEST_TIMED_OUT", "ok", "ok"]})],
    ),
    Script("timed out, and gaps behind it", [Round({0: ["REQUEST_TIMED_OUT", *[_GAP] * _MANY]})]),
    Script("too few replicas", [Round({0: ["NOT_ENOUGH_REPLICAS"] * _MANY}), Round({0: ["NOT_ENOUGH_REPLICAS"]})]),
    Script("too few replicas after it was written", [Round({0: ["+NOT_ENOUGH_REPLICAS_AFTER_APPEND"] * _MANY})]),
    Script("too few replicas, and gaps behind it", [Round({0: ["NOT_ENOUGH_REPLICAS", *[_GAP] * _MANY]})]),
    Script("the disk of a log has failed", [Round({0: ["KAFKA_STORAGE_ERROR"] * _MANY})]),
    Script("nobody knows the partition", [Round({0: ["UNKNOWN_TOPIC_OR_PARTITION"] * _MANY})]),
    Script("a batch is refused for good", [Round({0: ["ok", "INVALID_RECORD", *[_GAP] * _MANY]})]),
    Script("the connection ends", [Round(closes=(1,))]),
    Script("the connection ends after a first answer", [Round(), Round(closes=(1,))]),
    Script("a broker says nothing", [Round(silent=(1,))]),
    Script("nobody knows the producer", [Round({0: ["UNKNOWN_PRODUCER_ID"] * _MANY})]),
]
