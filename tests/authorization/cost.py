"""What the authorizer costs a produce request with 10,000 ACLs: `python -m tests.authorization.cost`.

A produce of one record with acks=all runs through the cores of a gateway and a logstore in one thread, without sockets,
streams and disks. Instructions of the interpreter are counted, which no other load disturbs; CPU time is the least of
several loops, in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from barnabas_gateway.core.model.config import AuthorizerConfig
from tests.costly.instructions import counted
from tests.unit.house.request_path import Cluster
from tests.unit.logstore.service.support import TOPIC

ACLS: Final = 10_000
ROUNDS: Final = 7
REQUESTS: Final = 2_000
WARM_UP: Final = 50


def many_acls(count: int) -> list[Acl]:
    """Of 500 teams, each with prefixes and topics of its own, and users from anywhere or one address; one may write to
    the topic that is measured, by a prefix, and others have rights to it as well.
    """
    random = Random(1)
    acls = [
        Acl(ResourceType.TOPIC, PatternType.PREFIXED, TOPIC[:1], "User:ANONYMOUS", "*", 4, 3),
        Acl(ResourceType.TOPIC, PatternType.LITERAL, "*", "User:*", "10.9.9.9", 2, 2),
        *(Acl(ResourceType.TOPIC, PatternType.LITERAL, TOPIC, f"User:u{number}", "*", 3, 3) for number in range(20)),
    ]
    known = set(acls)
    while len(acls) < count:
        team = random.randrange(500)
        pattern_type = random.choice(tuple(PatternType))
        name = f"team-{team}-" if pattern_type is PatternType.PREFIXED else f"team-{team}-topic-{random.randrange(20)}"
        acl = Acl(
            random.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)),
            pattern_type,
            name,
            f"User:team-{team}-{random.randrange(5)}",
            random.choice(("*", f"10.0.0.{random.randrange(250)}")),
            random.choice((Operation.READ, Operation.WRITE, Operation.DESCRIBE)),
            random.choice((PermissionType.ALLOW,) * 9 + (PermissionType.DENY,)),
        )
        if acl not in known:
            known.add(acl)
            acls.append(acl)
    return acls


def produce_instructions(cluster: Cluster, before: Callable[[], None] = lambda: None) -> int:
    """Return the least of some requests: a few have other work of a turn in them."""
    least = 1 << 60
    for _ in range(20):
        before()
        with counted() as count:
            cluster.produce()
        least = min(least, count.instructions)
    return least


def produce_us(clusters: list[Cluster]) -> Iterator[float]:
    """Yield the CPU time of a produce in µs for each, the least of `ROUNDS` loops taken in turn."""
    least = [float("inf")] * len(clusters)
    for _ in range(ROUNDS):
        for number, cluster in enumerate(clusters):
            began_s = time.thread_time()
            for _ in range(REQUESTS):
                cluster.produce()
            least[number] = min(least[number], (time.thread_time() - began_s) * 1e6 / REQUESTS)
    yield from least


def main() -> None:
    acls = many_acls(ACLS)
    off, on = Cluster(), Cluster(AuthorizerConfig(True), acls)
    for cluster in (off, on):
        for _ in range(WARM_UP):
            assert not cluster.produce().responses[0].partition_responses[0].error_code
    decisions = on.processor.authorizer._decisions
    counts = [produce_instructions(off), produce_instructions(on), produce_instructions(on, decisions.clear)]
    off_us, on_us = produce_us([off, on])
    began_s = time.thread_time()
    for _ in range(REQUESTS):
        decisions.clear()
        on.produce()
    searched_us = (time.thread_time() - began_s) * 1e6 / REQUESTS
    print(f"{len(acls):,} ACLs | instructions | of the first | CPU µs | of the first")
    names = ("no authorizer", "a decision that is remembered", "a decision that is searched")
    for name, count, us in zip(names, counts, (off_us, on_us, searched_us), strict=True):
        print(f"{name} | {count:,} | {count / counts[0]:.4f} | {us:.1f} | {us / off_us:.3f}")


if __name__ == "__main__":
    main()
