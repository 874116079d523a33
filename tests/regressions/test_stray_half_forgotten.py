"""A stray whose removal was ended unexpectedly, when its log was aside already, is removed by the next commands.

The next full state of the controller removed it once more, which raised where nothing contains it: the logstore ended
(seed 277 with exceptions).
"""

from __future__ import annotations

from barnabas.cluster.messages import UpdateMetadata
from barnabas_logstore.core.replica.containment import CONTROL
from tests.unit.logstore.service.support import CONTROLLER_EPOCH, EXCHANGE, Host, topic

OTHER = b"another topic id"


def test_a_stray_that_is_half_forgotten_is_forgotten_by_the_next_commands() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(partitions=2))
    first, _ = host.core.partitions
    # What counts the partitions of a topic has lost this one's.
    host.core._replicas.meters._partitions.pop(first.topic)
    response = host.lead(topic(topic_id=OTHER, partitions=2), full=True)
    assert host.core.contained.counts[CONTROL]
    assert response.partition_errors
    host.control(UpdateMetadata(1, True, "", CONTROLLER_EPOCH, [], [], []))
    host.lead(topic(topic_id=OTHER, partitions=2))
    assert {each.topic_id for each in host.core.partitions} == {OTHER}
    assert len(host.core.partitions) == 2
