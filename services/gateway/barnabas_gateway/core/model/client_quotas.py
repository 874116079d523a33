"""ClientQuotas: what the clients of a processor use of their quotas, and how long they have to wait (KIP-219).

Only connections have a reference to it, and only while any client has a quota: without quotas a request pays for
looking whether there is one. Who is limited is decided once for each user and client id, until the quotas change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.cluster.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from barnabas.cluster.quotas.shares import PERIOD_MS, QuotaId
from barnabas.metrics import quota_families as families
from barnabas.metrics.family import Sample
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.model.quota_bucket import QuotaBucket
from barnabas_gateway.core.model.quota_limits import CLIENT_KEYS, QuotaLimits, QuotaTags
from barnabas_gateway.core.model.request_context import RequestContext

BUCKETS_MAX: Final = 20_000
"""Half a kilobyte each: a client that changes its id must not make a processor grow."""
_CLIENTS_MAX: Final = 20_000
_REPORTING_MAX: Final = 1_000
"""Quotas whose shares are agreed at a time; the others are split evenly."""
_SAMPLES_MAX: Final = 200
"""Buckets with metrics of their own, in order of appearance; the others are added up without names."""


class ClientQuotas:
    __slots__ = (
        "_clients",
        "_clock",
        "_config",
        "_deadlines",
        "_gateways",
        "_is_timing",
        "_limits",
        "_processors",
        "_read_us",
        "_reporting",
        "_turn",
        "buckets",
        "deadline_bucket",
        "is_active",
        "members",
    )

    def __init__(
        self, config: GatewayConfig, clock: Clock, read_us: Callable[[], int], deadlines: Deadlines, turn: Turn
    ) -> None:
        self._config = config
        self._deadlines = deadlines
        self._turn = turn
        self.deadline_bucket = -1
        self._reporting: dict[QuotaId, QuotaBucket] = {}
        """Those that are used at present."""
        self._clock = clock
        self._read_us = read_us
        self._processors = max(1, config.processors)
        self._gateways = 1
        self._is_timing = False
        self._limits = {key: QuotaLimits(key, {}) for key in CLIENT_KEYS}
        self._clients: dict[tuple[str, str], dict[str, QuotaBucket]] = {}
        """By user and client id: the buckets that it uses, by the quota's key."""
        self.buckets: dict[QuotaId, QuotaBucket] = {}
        self.members = self._processors
        """Processors of all gateways."""
        self.is_active = False
        """Whether any client has a quota."""

    def quotas_changed(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Limit by these from now on."""
        self._limits = {key: QuotaLimits(key, quotas) for key in CLIENT_KEYS}
        self.is_active = not all(limits.is_empty() for limits in self._limits.values())
        self._clients.clear()
        now_ms = self._clock.now_ms
        for quota_id, bucket in list(self.buckets.items()):
            key, *tags = quota_id
            found = self._limits[key].find(*tags)
            if found is None or found[0] != tuple(tags):
                del self.buckets[quota_id]
                self._reporting.pop(quota_id, None)
            elif found[1] != bucket.limit:
                bucket.change(found[1], self.members, now_ms)

    def gateways_changed(self, gateways: int) -> None:
        """So many gateways share the quotas."""
        self._gateways = max(1, gateways)
        self._members_changed()

    def processors_changed(self, processors: int) -> None:
        """This gateway has so many processors."""
        self._processors = max(1, processors)
        self._members_changed()

    def _members_changed(self) -> None:
        members = self._gateways * self._processors
        if members != self.members:
            self.members = members
            for bucket in self.buckets.values():
                bucket.change(bucket.limit, members, self._clock.now_ms)

    def _buckets_of(self, context: RequestContext, client_id: str | None) -> dict[str, QuotaBucket]:
        client = context.principal.name, client_id or ""
        buckets = self._clients.get(client)
        if buckets is None:
            if len(self._clients) >= _CLIENTS_MAX:
                self._clients.clear()
            buckets = self._clients[client] = {}
            for key, limits in self._limits.items():
                found = limits.find(*client)
                if found is not None:
                    buckets[key] = self._bucket(key, *found)
        return buckets

    def _bucket(self, key: str, tags: QuotaTags, limit: float) -> QuotaBucket:
        quota_id = QuotaId(key, *tags)
        bucket = self.buckets.get(quota_id)
        if bucket is None:
            if len(self.buckets) >= BUCKETS_MAX:
                self._clients.clear()
                oldest = next(iter(self.buckets))
                del self.buckets[oldest]
                self._reporting.pop(oldest, None)
            config = self._config
            window_ms, windows = config.quota_window_ms, config.quota_windows - 1
            if key == CONTROLLER_MUTATION_RATE:
                window_ms, windows = config.controller_quota_window_ms, config.controller_quota_windows
            burst_ms = window_ms * max(1, windows)
            bucket = QuotaBucket(limit, self.members, burst_ms, window_ms, self._clock.now_ms)
            self.buckets[quota_id] = bucket
        return bucket

    # --- the shares of several processors ---

    def _note_used(self, key: str, context: RequestContext, client_id: str | None) -> QuotaBucket | None:
        """Return the bucket that a client is about to use. Its use is reported from now on, if others share it."""
        bucket = self._buckets_of(context, client_id).get(key)
        if bucket is not None and not bucket.is_reported and self.members > 1 and len(self._reporting) < _REPORTING_MAX:
            tags = self._limits[key].find(context.principal.name, client_id or "")
            assert tags is not None, "a client with a bucket has a quota"
            bucket.is_reported = True
            self._reporting[QuotaId(key, *tags[0])] = bucket
            if self.deadline_bucket < 0:
                self._deadlines.schedule(self, self._clock.now_ms)
        return bucket

    def failed(self, error: Exception) -> None:
        raise error

    def expire(self, now_ms: int) -> None:
        """Report what is used, and what is not used any more once."""
        uses = self._turn.rare.quota_uses
        for quota_id, bucket in list(self._reporting.items()):
            use = bucket.take_use(quota_id, now_ms)
            uses.append(use)
            if not use.used and not use.waiting:
                bucket.is_reported = False
                del self._reporting[quota_id]
        if self._reporting:
            self._deadlines.schedule(self, now_ms + PERIOD_MS)

    def shares_granted(self, shares: Iterable[tuple[QuotaId, float]]) -> None:
        """Have these rates, which answer a report."""
        for quota_id, rate in shares:
            bucket = self.buckets.get(quota_id)
            if bucket is not None:
                bucket.lease(rate, self._clock.now_ms)

    # --- what is used ---

    def produced(self, context: RequestContext, client_id: str | None, request_bytes: int) -> int:
        """Return how long the client has to wait, in ms, for all that it has sent."""
        bucket = self._note_used(PRODUCER_BYTE_RATE, context, client_id)
        return 0 if bucket is None else bucket.spend(request_bytes, self._clock.now_ms)

    def produce_wait_ms(self, context: RequestContext, client_id: str | None) -> int:
        """Return how long the client has to wait after the answer that names it."""
        bucket = self._buckets_of(context, client_id).get(PRODUCER_BYTE_RATE)
        return 0 if bucket is None else self._noted(bucket, bucket.wait_ms(self._clock.now_ms))

    def fetch_wait_ms(self, context: RequestContext, client_id: str | None) -> int:
        """Return how long the client has to wait before it gets any records; 0: it may fetch."""
        bucket = self._note_used(CONSUMER_BYTE_RATE, context, client_id)
        return 0 if bucket is None else self._noted(bucket, bucket.wait_ms(self._clock.now_ms))

    def fetch_bytes_max(self, context: RequestContext, client_id: str | None, bytes_max: int) -> int:
        """Return how much one answer may have: what fits into the quota's window (KIP-13)."""
        bucket = self._buckets_of(context, client_id).get(CONSUMER_BYTE_RATE)
        return bytes_max if bucket is None else min(bytes_max, max(1, int(bucket.capacity(self._clock.now_ms))))

    def fetched(self, context: RequestContext, client_id: str | None, records_bytes: int) -> None:
        bucket = self._buckets_of(context, client_id).get(CONSUMER_BYTE_RATE)
        if bucket is not None:
            bucket.spend(records_bytes, self._clock.now_ms)

    def worked(self, context: RequestContext, client_id: str | None, spent_us: int) -> int:
        """A request has taken so much of the loop's time. Return how long the client has to wait: a window at most, as
        in Kafka's `ClientRequestQuotaManager`.
        """
        bucket = self._note_used(REQUEST_PERCENTAGE, context, client_id)
        if bucket is None:
            return 0
        throttle_ms = bucket.spend(spent_us / 10_000, self._clock.now_ms)
        return self._noted(bucket, min(throttle_ms, self._config.quota_window_ms))

    def mutate(self, context: RequestContext, client_id: str | None, mutations: int, *, is_strict: bool) -> int:
        """Return how long the client has to wait (KIP-599). Strict: if it has to, nothing may be done."""
        bucket = self._note_used(CONTROLLER_MUTATION_RATE, context, client_id)
        if bucket is None:
            return 0
        now_ms = self._clock.now_ms
        throttle_ms = bucket.wait_ms(now_ms)
        if is_strict and throttle_ms:
            return self._noted(bucket, throttle_ms)
        throttle_ms = bucket.spend(mutations, now_ms)
        return 0 if is_strict else self._noted(bucket, throttle_ms)

    def _noted(self, bucket: QuotaBucket, throttle_ms: int) -> int:
        if throttle_ms:
            bucket.note_throttle(throttle_ms, self._clock.now_ms)
        return throttle_ms

    # --- the loop's time ---

    def start_timing(self) -> int:
        """Return the present time in µs; -1 if work is being timed already, of which this is a part."""
        if self._is_timing:
            return -1
        self._is_timing = True
        return self._read_us()

    def stop_timing(self, began_us: int) -> int:
        """Return how long it took, in µs."""
        if began_us < 0:
            return 0
        self._is_timing = False
        return self._read_us() - began_us

    # --- what is measured ---

    def samples(self) -> Iterable[Sample]:
        totals: dict[tuple[str, str, str], list[float]] = {}
        for number, (quota_id, bucket) in enumerate(self.buckets.items()):
            labels = (
                (quota_id.key, quota_id.user, quota_id.client_id) if number < _SAMPLES_MAX else (quota_id.key, "", "")
            )
            total = totals.setdefault(labels, [0.0, 0, 0])
            total[0] += bucket.used
            total[1] += bucket.throttled
            total[2] += bucket.throttle_ms
        for labels, (used, throttled, throttle_ms) in totals.items():
            yield Sample(families.QUOTA_USED, labels, used)
            yield Sample(families.QUOTA_THROTTLED, labels, throttled)
            yield Sample(families.QUOTA_THROTTLE_TIME, labels, throttle_ms)
