"""Starts a program of the matrix whose client can't create topics: they are there before it.

python -m tests.compat.matrix.python.with_topics TOPIC,… COMMAND… BOOTSTRAP REPLICATION PREFIX
"""

from __future__ import annotations

import os
import sys

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.matrix.python.checks import PARTITIONS, SECONDS, Target


def create(target: Target, suffixes: list[str]) -> None:
    """Create the topics, and return when they are."""
    wanted = [NewTopic(target.name(suffix), PARTITIONS, target.replication) for suffix in suffixes]
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for future in admin.create_topics(wanted).values():
        future.result(SECONDS)


def main() -> None:
    topics, *command = sys.argv[1:]
    bootstrap, replication, prefix = command[-3:]
    create(Target(bootstrap, int(replication), prefix), topics.split(","))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
