"""The settings of a tables job, from flags or a file: completely validated before anything starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from barnabas_pipeline.core.columns import NAME_LENGTH_MAX, RESERVED, Column, Struct, column_name, parse_type
from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.partitioning import Partitioning, parse_partitioning
from barnabas_pipeline.core.rows import COLUMNS_MAX

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TABLE = re.compile(r"[A-Za-z0-9{][A-Za-z0-9._{}-]{0,127}")
_INSTEAD: Final = {
    "subscribe": "say topics",
    "subscribepattern": "say topic_pattern",
    "assign": "say topics",
    "startingoffsets": "say starting",
    "startingoffsetsofunnamed": "new topics and partitions are read from their earliest offset",
    "startingtimestamp": "say starting",
    "startingoffsetsbytimestamp": "say starting",
    "includeheaders": "tables always have them",
}
"""Options of the source that the job sets itself, from its tables: another value would lose or duplicate rows."""


class TablesJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Names as in a job file and, with `-` for `_`, as flags."""

    name: str = "tables"
    bootstrap_servers: str = "localhost:9092"
    client_config: str = ""
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    into: Literal["iceberg", "delta", "parquet"] = "iceberg"
    to: str = "./data/tables"
    catalog: dict[str, str] = {}
    table: str = "{topic}"
    mode: Literal["append", "upsert"] = "append"
    value: Literal["raw", "json", "avro", "protobuf"] = "raw"
    columns: dict[str, str] = {}
    keep_raw: bool = False
    registry: str = ""
    registry_user: str = ""
    schema_file: str = ""
    message: str = ""
    partition_by: str = "none"
    starting: Literal["earliest", "latest"] = "earliest"
    until: Literal["now", "stopped"] = "stopped"
    trigger_ms: int = 1000
    batch_bytes_max: int = 256 * 1024 * 1024
    checkpoint: str = ""
    group: str = ""
    recreated: Literal["fail", "append"] = "fail"
    metrics_file: str = ""
    options: dict[str, str] = {}

    @property
    def partitioning(self) -> Partitioning:
        return parse_partitioning(self.partition_by)

    @property
    def declared(self) -> Struct:
        return Struct(tuple(Column(name, parse_type(text)) for name, text in self.columns.items()))

    @property
    def checkpoint_root(self) -> str:
        return self.checkpoint or f"{self.to}/_checkpoints/{self.name}"

    @property
    def group_id(self) -> str:
        """The consumer group in which lag tools see the job."""
        return self.group or f"barnabas-pipeline-{self.name}"


def tables_job(values: Mapping[str, Any]) -> TablesJob:
    """Build the job, with every field validated. Raises WrongOption with one sentence about the first error."""
    for name in values:
        if name not in TablesJob.__struct_fields__:
            raise WrongOption(f"invalid job: unknown field `{name}`{_hint(str(name))}")
    try:
        job = msgspec.convert(dict(values), TablesJob)
        _ = job.partitioning, job.declared
    except (msgspec.ValidationError, ValueError) as error:
        raise WrongOption(f"invalid job: {error}") from None
    wrong = _wrong(job)
    if wrong:
        raise WrongOption(f"invalid job: {wrong}")
    return job


def _hint(name: str) -> str:
    """Suggest a flag's name, or that of an option whose name is similar."""
    close = get_close_matches(name.replace("-", "_"), TablesJob.__struct_fields__, 1)
    return f", did you mean `{close[0]}`?" if close else ""


def _wrong(job: TablesJob) -> str:
    """Return what is inconsistent; empty if nothing is."""
    if bool(job.topics) == bool(job.topic_pattern):
        return "either topics or a topic_pattern is required, but not both"
    try:
        re.compile(job.topic_pattern)
    except re.error as error:
        return f"the topic_pattern is not a regular expression: {error}"
    if not _NAME.fullmatch(job.name):
        return f"a name may have letters, digits and . _ -, not {job.name!r}"
    if not _TABLE.fullmatch(job.table.replace("{topic}", "t")):
        return f"a table's name may have letters, digits, . _ - and {{topic}}, not {job.table!r}"
    if any(sign in job.to + job.checkpoint for sign in "?#%"):
        return "the location of tables or of a checkpoint can't contain ?, # or %"
    if job.trigger_ms < 0 or job.batch_bytes_max < 1:
        return "trigger_ms must be at least 0 and batch_bytes_max at least 1"
    return _wrong_values(job) or _wrong_columns(job) or _wrong_keys(job) or _wrong_options(job)


def _wrong_values(job: TablesJob) -> str:
    by_schema = job.value in ("avro", "protobuf")
    if by_schema and bool(job.registry) == bool(job.schema_file):
        return f"value {job.value} requires either a registry or a schema_file"
    if not by_schema and job.schema_file:
        return f"value {job.value} does not use a schema_file"
    if job.value == "raw" and job.registry:
        return "value raw does not use a registry"
    if job.registry_user and (not job.registry or ":" not in job.registry_user):
        return "registry_user must be NAME:SECRET, and needs a registry"
    if job.message and (job.value != "protobuf" or job.registry):
        return "a message is only allowed for value protobuf with a schema_file"
    if job.value == "raw" and (job.columns or job.keep_raw):
        return "columns and keep_raw need decoded values, but value is raw"
    return ""


def _wrong_columns(job: TablesJob) -> str:
    if len(job.columns) > COLUMNS_MAX:
        return f"a table has at most {COLUMNS_MAX:,} columns, {len(job.columns):,} are declared"
    seen: dict[str, str] = {}
    for declared in job.columns:
        name = column_name(declared, RESERVED | job.partitioning.names)
        if name is None:
            return (
                f"a column's name has 1 to {NAME_LENGTH_MAX} characters, that of {declared[:20]!r} has {len(declared)}"
            )
        if name != declared:
            return (
                f"no column can have the name {declared!r}: the field of that name is stored in {name!r}, declare that"
            )
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return f"columns {other!r} and {name!r} differ only in case, which tables don't distinguish: declare one"
    return ""


def _wrong_keys(job: TablesJob) -> str:
    several = bool(job.topic_pattern) or len(job.topics) > 1
    if job.mode == "upsert" and several and "{topic}" not in job.table:
        return "an upsert table has the keys of one topic: put {topic} into the table's name"
    return ""


def _wrong_options(job: TablesJob) -> str:
    for name in job.options:
        instead = _INSTEAD.get(name.lower())
        if instead is not None:
            return f"option {name} is set by the job: {instead}"
    return ""
