"""The options of `format("barnabas")`: those of Spark's JVM connector under its names, and some additional ones.

A job that reads with `format("kafka")` runs with `format("barnabas")` unchanged: options that only tune the JVM's
client are accepted and ignored. Any other unknown option is an error, because a misspelt option would silently do
nothing. Names are case-insensitive, like all of Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeVar

from barnabas.cluster.access.client_properties import SECURITY_PROPERTIES, librdkafka_properties
from barnabas_pipeline.core.admission import WAIT_MS_MAX, Limits
from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.losses import OnDataLoss
from barnabas_pipeline.core.settings import PRODUCER_LOG_LEVEL, ClientSettings, Isolation
from barnabas_pipeline.core.subscription import End, Place, Subscription, parse_places, parse_subscription, parse_times

_T = TypeVar("_T")


class Use(Enum):
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`group_id`: the consumer group for committing progress. `loss_topic`: where to write losses."""

    subscription: Subscription
    starting: Place
    ending: Place
    limits: Limits
    partitions_min: int | None
    records_per_partition_max: int | None
    on_data_loss: OnDataLoss
    loss_topic: str | None
    include_headers: bool
    group_id: str | None
    client: ClientSettings


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`topic` is None if each row names its own; `producer` is librdkafka's configuration. `transactional_id`: what the
    tasks' ids begin with if each writes in transactions; None: it writes at least once.
    """

    topic: str | None
    producer: Mapping[str, str]
    transactional_id: str | None = None


SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_LIMITS: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_READ: Final = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingOffsetsOfUnnamed",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    *_LIMITS,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "onDataLoss",
    "dataLossTopic",
    "includeHeaders",
    "group.id",
)
_WRITE: Final = ("topic", "includeHeaders")
"""Headers are written if rows have them: the second option has no effect here, as in the JVM connector."""
_CLIENT: Final = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.retry.backoff.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.isolation.level",
    "kafka.check.crcs",
    "kafka.group.id",
    *(f"kafka.{name}" for name in SECURITY_PROPERTIES),
)
_PASSED_OVER: Final = frozenset(
    {
        "checkpointlocation",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "kafka.auto.commit.interval.ms",
        "kafka.client.dns.lookup",
        "kafka.client.rack",
        "kafka.connections.max.idle.ms",
        "kafka.exclude.internal.topics",
        "kafka.fetch.max.bytes",
        "kafka.fetch.min.bytes",
        "kafka.heartbeat.interval.ms",
        "kafka.max.poll.interval.ms",
        "kafka.max.poll.records",
        "kafka.metadata.max.age.ms",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.send.buffer.bytes",
        "kafka.session.timeout.ms",
    }
)
"""Spark's own options, and those of the JVM connector's consumer, which are ignored."""
_TRANSACTION_TIMEOUT_MS: Final = "900000"
"""As long as brokers allow by default (`transaction.max.timeout.ms`): a task computes its rows while it writes them."""
_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_FALSE_OR_TRUE: Final = {"false": False, "true": True}
_ISOLATIONS: Final = {"read_uncommitted": Isolation.READ_UNCOMMITTED, "read_committed": Isolation.READ_COMMITTED}


class Given:
    """Options as they were given; reading a wrong one raises WrongOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value).strip() for name, value in options.items()}

    def check_names(self, known: tuple[str, ...]) -> None:
        allowed = {name.lower(): name for name in known}
        for name in sorted(self._values):
            if name in allowed or name in _PASSED_OVER:
                continue
            close = get_close_matches(name, allowed, 1)
            hint = f"; did you mean '{allowed[close[0]]}'?" if close else f"; known are: {', '.join(known)}"
            raise WrongOption(f"option '{name}' is unknown to format 'barnabas'{hint}")

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def number(self, name: str, default: int) -> int:
        """Read a number above 0."""
        return self._parsed(name, default, _above_zero, "a whole number above 0")

    def number_if_any(self, name: str) -> int | None:
        """Read a number above 0, or None."""
        return None if self.text(name) is None else self.number(name, 1)

    def duration_ms(self, name: str, default: int) -> int:
        """Read a duration as Spark writes it: `15m`; without a unit milliseconds."""
        return self._parsed(name, default, _milliseconds, "a duration like '500ms', '30s' or '15m'")

    def flag(self, name: str, default: bool) -> bool:
        return self._parsed(name, default, lambda text: _FALSE_OR_TRUE[text.lower()], "'true' or 'false'")

    def one_of(self, name: str, default: _T, meanings: Mapping[str, _T]) -> _T:
        texts = " or ".join(f"'{text}'" for text in meanings)
        return self._parsed(name, default, lambda text: meanings[text.lower()], texts)

    def _parsed(self, name: str, default: _T, parse: Callable[[str], _T], what: str) -> _T:
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(text)
        except (KeyError, ValueError):
            raise WrongOption(f"option '{name}' must be {what}, not '{text}'") from None


def read_options(options: Mapping[str, str], use: Use) -> ReadOptions:
    """Raises WrongOption."""
    given = Given(options)
    given.check_names((*_READ, *_CLIENT))
    on_data_loss = _on_data_loss(given)
    loss_topic = given.text("dataLossTopic")
    if (on_data_loss is OnDataLoss.RECORD) != (loss_topic is not None):
        raise WrongOption(
            "onDataLoss 'record' needs dataLossTopic, the topic to write losses to, and nothing else does"
        )
    starting, ending = _places(given, use)
    return ReadOptions(
        subscription=parse_subscription({name: given.text(name) for name in SUBSCRIPTIONS}),
        starting=starting,
        ending=ending,
        limits=_limits(given, use),
        partitions_min=given.number_if_any("minPartitions"),
        records_per_partition_max=given.number_if_any("maxRecordsPerPartition"),
        on_data_loss=on_data_loss,
        loss_topic=loss_topic,
        include_headers=given.flag("includeHeaders", False),
        group_id=given.text("group.id") or given.text("kafka.group.id"),
        client=_client_settings(given),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """All `kafka.` options go to the producer, except those that a user may not set. Raises WrongOption."""
    given = Given(options)
    bootstrap = _bootstrap_text(given)
    # A key's partition is chosen as by Java producers and the JVM connector: librdkafka's default is another.
    # librdkafka's messages go into the error (see `barnabas_pipeline.kafka.deliveries`).
    producer = {"partitioner": "murmur2_random", "log_level": PRODUCER_LOG_LEVEL}
    for name, value in options.items():
        setting = name.lower().removeprefix("kafka.")
        if setting == name.lower():
            Given({name: value}).check_names(_WRITE)
        elif setting in ("key.serializer", "value.serializer", "enable.idempotence"):
            raise WrongOption(f"option '{name}' can't be set: rows are written unchanged, by an idempotent producer")
        else:
            producer[setting] = str(value)
    try:
        producer = librdkafka_properties(producer)
    except ValueError as error:
        raise WrongOption(f"option 'kafka.{error}'") from None
    transactional_id = producer.pop("transactional.id", None)
    if transactional_id is not None:
        if not transactional_id.strip():
            raise WrongOption("option 'kafka.transactional.id' must not be empty")
        producer.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
    return WriteOptions(
        given.text("topic"),
        {**producer, "bootstrap.servers": bootstrap, "enable.idempotence": "true"},
        transactional_id,
    )


def includes_headers(options: Mapping[str, str]) -> bool:
    """For the schema, which is needed before anything is read."""
    return Given(options).flag("includeHeaders", False)


def _places(given: Given, use: Use) -> tuple[Place, Place]:
    strategy = {"error": False, "latest": True}
    starting = _place(given, "starting", End.EARLIEST if use is Use.BATCH else End.LATEST)
    starting = starting._replace(
        is_latest_where_no_time=given.one_of("startingOffsetsByTimestampStrategy", False, strategy),
        is_earliest_where_unnamed=given.one_of("startingOffsetsOfUnnamed", False, {"error": False, "earliest": True}),
    )
    ending = _place(given, "ending", End.LATEST)._replace(is_latest_where_no_time=True)
    if use is Use.STREAM:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if given.text(name) is not None:
                raise WrongOption(f"option '{name}' is for batch reads: a stream does not end")
    else:
        if starting.mentions(End.LATEST):
            raise WrongOption("option 'startingOffsets' can't be 'latest' (-1) in a batch read: nothing would be read")
        if ending.mentions(End.EARLIEST):
            raise WrongOption("option 'endingOffsets' can't be 'earliest' (-2): nothing would be read")
    return starting, ending


def _limits(given: Given, use: Use) -> Limits:
    for name in _LIMITS if use is Use.BATCH else ():
        if given.text(name) is not None:
            raise WrongOption(f"option '{name}' is for streams: a batch read has no triggers")
    limits = Limits(
        records_max=given.number_if_any("maxOffsetsPerTrigger"),
        bytes_max=given.number_if_any("maxBytesPerTrigger"),
        records_min=given.number_if_any("minOffsetsPerTrigger"),
        wait_ms_max=given.duration_ms("maxTriggerDelay", WAIT_MS_MAX),
    )
    if limits.records_min is None and given.text("maxTriggerDelay") is not None:
        raise WrongOption("option 'maxTriggerDelay' limits the delay by minOffsetsPerTrigger: set that, too")
    if limits.records_min is not None and limits.records_max is not None and limits.records_min > limits.records_max:
        raise WrongOption(
            f"option 'minOffsetsPerTrigger' is {limits.records_min}, more than maxOffsetsPerTrigger, "
            f"{limits.records_max}, lets a batch have"
        )
    return limits


def _place(given: Given, which: str, default: End) -> Place:
    """As in the JVM connector, one time for all takes precedence over times by partition, and these over offsets."""
    time_name, times_name, offsets_name = f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    time_ms = given.text(time_name)
    if time_ms is not None:
        if not time_ms.isdecimal():
            raise WrongOption(f"option '{time_name}' must be milliseconds since 1970, not '{time_ms}'")
        return Place(default, time_ms=int(time_ms))
    times = given.text(times_name)
    if times is not None:
        return Place(default, times_ms=parse_times(times_name, times))
    offsets = given.text(offsets_name)
    if offsets is None:
        return Place(default)
    ends = {"earliest": End.EARLIEST, "latest": End.LATEST}
    if offsets.lower() in ends:
        return Place(ends[offsets.lower()])
    return Place(default, offsets=parse_places(offsets_name, offsets))


def _on_data_loss(given: Given) -> OnDataLoss:
    by_flag = OnDataLoss.FAIL if given.flag("failOnDataLoss", True) else OnDataLoss.CONTINUE
    if given.text("onDataLoss") is not None and given.text("failOnDataLoss") is not None:
        raise WrongOption("onDataLoss replaces failOnDataLoss: set only one of them")
    return given.one_of("onDataLoss", by_flag, {each.value: each for each in OnDataLoss})


def _client_settings(given: Given) -> ClientSettings:
    defaults = ClientSettings(())
    return ClientSettings(
        bootstrap=parse_bootstrap(_bootstrap_text(given)),
        client_id=given.text("kafka.client.id") or defaults.client_id,
        request_timeout_ms=given.number("kafka.request.timeout.ms", defaults.request_timeout_ms),
        api_timeout_ms=given.number("kafka.default.api.timeout.ms", defaults.api_timeout_ms),
        retry_backoff_ms=given.number("kafka.retry.backoff.ms", defaults.retry_backoff_ms),
        retry_backoff_max_ms=given.number("kafka.retry.backoff.max.ms", defaults.retry_backoff_max_ms),
        fetch_bytes_max=given.number("kafka.max.partition.fetch.bytes", defaults.fetch_bytes_max),
        fetch_wait_ms_max=given.number("kafka.fetch.max.wait.ms", defaults.fetch_wait_ms_max),
        isolation=given.one_of("kafka.isolation.level", defaults.isolation, _ISOLATIONS),
        check_crcs=given.flag("kafka.check.crcs", defaults.check_crcs),
        security=_security(given),
    )


def _security(given: Given) -> tuple[tuple[str, str], ...]:
    values = {name: given.text(f"kafka.{name}") for name in SECURITY_PROPERTIES}
    return tuple((name, value) for name, value in values.items() if value is not None)


def _bootstrap_text(given: Given) -> str:
    text = given.text("kafka.bootstrap.servers")
    if not text:
        raise WrongOption("option 'kafka.bootstrap.servers' is required: host:port of one or more brokers")
    return text


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,host:port`; an IPv6 address in brackets. Raises WrongOption."""
    addresses = []
    for part in filter(None, map(str.strip, text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise WrongOption(f"option 'kafka.bootstrap.servers': '{part}' is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise WrongOption(f"option 'kafka.bootstrap.servers': '{text}' names no server")
    return tuple(addresses)


def _above_zero(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError(text)
    return number


def _milliseconds(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)([a-z]*)", text.lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _UNITS_MS[match[2]]
