"""Names that a topic may have: Kafka's rule (`org.apache.kafka.common.internals.Topic`).

A logstore names directories after topics, and its checkpoints have a topic in each line. So the rule is also kept where
a name comes from another service, from etcd, or from a backup: one with a slash would be a path out of the log
directory, one with a line feed another line.
"""

from __future__ import annotations

import re
from typing import Final

TOPIC_NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_legal_topic_name(topic: str) -> bool:
    return len(topic) <= TOPIC_NAME_LENGTH_MAX and topic not in (".", "..") and _LEGAL.match(topic) is not None


def topic_name_problem(topic: str) -> str | None:
    """Return why Kafka refuses a name; None if it does not."""
    if is_legal_topic_name(topic):
        return None
    if not topic:
        return "the empty string is not allowed"
    if topic in (".", ".."):
        return f"'{topic}' is not allowed"
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        return f"the length of '{topic}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    return f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
