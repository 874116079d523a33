"""The Grafana dashboard, declared: `scripts/dashboard` writes `deploy/observability/dashboard.json` of it.

`{$}` in an expression is the selector of the templated namespace and job; `[$]` the range that Grafana chooses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[3] / "deploy" / "observability" / "dashboard.json"
UID = "barnabas-overview"
_SELECTOR = 'namespace=~"$namespace",job=~"$job"'
_WIDTH = 24
_HEIGHT = 8


@dataclass(slots=True, frozen=True)
class Query:
    text: str
    legend: str

    @property
    def expression(self) -> str:
        text = self.text.replace("{$}", f"{{{_SELECTOR}}}").replace("{$,", f"{{{_SELECTOR},")
        return text.replace("[$]", "[$__rate_interval]")


@dataclass(slots=True, frozen=True)
class Panel:
    """`unit` is Grafana's; `about` says what to make of it."""

    title: str
    unit: str
    about: str
    queries: tuple[Query, ...]


def _p99(family: str, by: str, matchers: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({family}_bucket{{$,{matchers}}}[$])))".replace(
        "{$,}", "{$}"
    )


def _mean(family: str, by: str, matchers: str = "") -> str:
    selector = f"{{$,{matchers}}}" if matchers else "{$}"
    return f"sum by ({by}) (rate({family}_sum{selector}[$])) / sum by ({by}) (rate({family}_count{selector}[$]))"


def _panel(title: str, unit: str, about: str, *queries: tuple[str, str]) -> Panel:
    return Panel(title, unit, about, tuple(Query(text, legend) for text, legend in queries))


_REPLICAS = "kafka_server_replicamanager_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_CONTROLLER = "kafka_controller_kafkacontroller_"
_TOTAL = "kafka_network_requestmetrics_totaltimems"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Health": (
        _panel(
            "Partitions in trouble",
            "short",
            "Anything above zero is somebody's data less safe, or not to be had. Who is it: the rows below.",
            (f"sum({_CONTROLLER}offlinepartitionscount{{$}})", "offline"),
            ("sum(barnabas_controller_under_replicated_partitions{$})", "under-replicated"),
            (f"sum({_REPLICAS}underminisrpartitioncount{{$}})", "under min ISR"),
            (f"sum({_REPLICAS}offlinereplicacount{{$}})", "replicas offline"),
        ),
        _panel(
            "Who is there",
            "short",
            "One controller is active. A logstore that is known and not registered is fenced.",
            (f"sum({_CONTROLLER}activecontrollercount{{$}})", "active controllers"),
            (f"sum({_CONTROLLER}activebrokercount{{$}})", "logstores"),
            (f"sum({_CONTROLLER}fencedbrokercount{{$}})", "fenced logstores"),
            ("sum(barnabas_gateway_processors{$})", "processors"),
        ),
        _panel(
            "Records in and out",
            "Bps",
            "Of clients; replication is in its own row.",
            (f'sum(rate({_TOPICS}bytesinpersec_total{{$,topic=""}}[$]))', "in"),
            (f'sum(rate({_TOPICS}bytesoutpersec_total{{$,topic=""}}[$]))', "out"),
        ),
        _panel(
            "Errors in answers",
            "reqps",
            "By Kafka's name. Some are part of a client's normal life: NOT_LEADER_OR_FOLLOWER after a failover.",
            ('sum by (request, error) (rate(kafka_network_requestmetrics_errorspersec_total{$,error!="NONE"}[$]))',
             "{{request}} {{error}}"),
        ),
        _panel(
            "How late event loops are, p99",
            "ms",
            "A process that has too much to do, or is not let run: stopped, throttled, swapping. It names itself here.",
            (_p99("barnabas_loop_lateness_ms", "instance, process"), "{{instance}} {{process}}"),
        ),
        _panel(
            "Longest turn of event loops",
            "ms",
            "How long whatever came had to wait at most, in the last one to two minutes. It does not grow "
            "with the elements of a request; one of thousands of partitions that come or go is longer.",
            ("max by (instance, process) (barnabas_loop_longest_turn_ms{$})", "{{instance}} {{process}}"),
        ),
        _panel(
            "CPU",
            "percentunit",
            "Of each process; 1 is a whole core, and the most that one process can use.",
            ("sum by (instance, process) (rate(process_cpu_seconds_total{$}[$]))", "{{instance}} {{process}}"),
        ),
        _panel(
            "Memory",
            "bytes",
            "Resident, by pod.",
            ("sum by (instance) (process_resident_memory_bytes{$})", "{{instance}}"),
        ),
        _panel(
            "Processes lost or silent",
            "short",
            "Processors that died, and answers to scrapes that a process did not give.",
            ("sum by (instance) (increase(barnabas_gateway_processor_deaths_total{$}[$]))", "{{instance}} died"),
            ("sum by (instance) (increase(barnabas_metrics_silent_processes_total{$}[$]))", "{{instance}} silent"),
        ),
    ),
    "Requests by hop": (
        _panel(
            "Requests",
            "reqps",
            "By API; a fetch of a follower is FetchFollower.",
            ("sum by (request) (rate(kafka_network_requestmetrics_requestspersec_total{$}[$]))", "{{request}}"),
        ),
        _panel(
            "Total time, p99",
            "ms",
            "From a request's last byte until the socket has its answer. Long polls wait on purpose: FetchConsumer.",
            (_p99(_TOTAL, "request", 'request!~"FetchConsumer|FetchFollower|JoinGroup|SyncGroup"'), "{{request}}"),
        ),
        _panel(
            "Where a produce spends its time, mean",
            "ms",
            "The hops add up to the total time. channel: on the way to a logstore and back; purgatory: for replicas.",
            (_mean("barnabas_request_hop_ms", "hop", 'request="Produce"'), "{{hop}}"),
        ),
        _panel(
            "Where a consumer's fetch spends its time, mean",
            "ms",
            "purgatory: for new records, as the client has asked for.",
            (_mean("barnabas_request_hop_ms", "hop", 'request="FetchConsumer"'), "{{hop}}"),
        ),
        _panel(
            "Answers of each logstore, p99",
            "ms",
            "From when a gateway has sent an append or a query until the answer: which logstore is slow.",
            (_p99("barnabas_gateway_logstore_answer_ms", "logstore"), "logstore {{logstore}}"),
        ),
        _panel(
            "Unanswered, by logstore",
            "short",
            "Requests that a logstore has. What grows here and not there is where it queues.",
            ("sum by (logstore, kind) (barnabas_gateway_logstore_unanswered{$})", "logstore {{logstore}} {{kind}}"),
        ),
        _panel(
            "Waiting for credit, by logstore",
            "short",
            "Backpressure: the logstore lets no more come. Clients of others are not held up.",
            ("sum by (logstore, kind) (barnabas_gateway_logstore_waiting{$})", "logstore {{logstore}} {{kind}}"),
        ),
        _panel(
            "Queues and idle processors",
            "short",
            "Requests not begun, answers behind others; and what part of its time a processor has nothing to do.",
            ("sum(kafka_network_requestchannel_requestqueuesize{$})", "requests queued"),
            ("sum(kafka_network_requestchannel_responsequeuesize{$})", "answers queued"),
            ("min(kafka_network_socketserver_networkprocessoravgidlepercent{$})", "least idle processor"),
        ),
        _panel(
            "Connections",
            "short",
            "Of clients, by listener.",
            ("sum by (listener) (kafka_server_socket_server_metrics_connection_count{$})", "{{listener}}"),
        ),
        _panel(
            "Connections opened and closed",
            "cps",
            "Clients that come and go all the time cost more than those that stay.",
            ("sum(rate(kafka_server_socket_server_metrics_connection_creation_total{$}[$]))", "opened"),
            ("sum(rate(kafka_server_socket_server_metrics_connection_close_total{$}[$]))", "closed"),
        ),
    ),
    "Logstores": (
        _panel(
            "Time that a produce is at a logstore, mean",
            "ms",
            "As the logstore itself sees it: in its queue, and worked on, the write included.",
            (_mean("barnabas_logstore_request_ms", "instance, part", 'request="Produce"'), "{{instance}} {{part}}"),
        ),
        _panel(
            "Disk, p99",
            "ms",
            "By what is done; loop: in a turn of the data loop, where it holds up everything else.",
            (_p99("barnabas_logstore_io_time_ms", "instance, effect, by"), "{{instance}} {{effect}} ({{by}})"),
        ),
        _panel(
            "Flushes, p99",
            "ms",
            "Of closed segments, or of every write where flush.messages says so.",
            (_p99("kafka_log_logflushstats_logflushrateandtimems", "instance"), "{{instance}}"),
        ),
        _panel(
            "Effects that wait for IO workers",
            "short",
            "More than num.io.threads for long: the disks don't keep up.",
            ("sum by (instance) (barnabas_logstore_io_queue_size{$})", "{{instance}}"),
        ),
        _panel(
            "Idle part of handlers",
            "percentunit",
            "Of the data loop, and of the IO workers.",
            ("min by (instance, handler) (kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent{$})",
             "{{instance}} {{handler}}"),
        ),
        _panel(
            "Free on the disks",
            "bytes",
            "Of each log directory. Retention does not look at it: a full disk takes no appends.",
            ("min by (instance, directory) (barnabas_log_directory_free_bytes{$})", "{{instance}} {{directory}}"),
        ),
        _panel(
            "Logs, by topic",
            "bytes",
            "All replicas together; the first topics of each logstore, and __other__.",
            ("sum by (topic) (barnabas_log_size_bytes{$})", "{{topic}}"),
        ),
        _panel(
            "Cleaner",
            "percent",
            "The filthiest log; and logs that can't be cleaned any more.",
            ("max by (instance) (kafka_log_logcleanermanager_max_dirty_percent{$})", "{{instance}} dirty"),
            ("sum by (instance) (kafka_log_logcleanermanager_uncleanable_partitions_count{$})",
             "{{instance}} uncleanable"),
        ),
    ),
    "Replication": (
        _panel(
            "Under-replicated, by leader",
            "short",
            "Partitions that a logstore leads, with a replica that is not in sync.",
            (f"sum by (instance) ({_REPLICAS}underreplicatedpartitions{{$}})", "{{instance}}"),
        ),
        _panel(
            "How far followers are behind",
            "short",
            "In records, of the partition where a follower is the furthest: as leaders see it.",
            ("max by (follower) (barnabas_replication_follower_lag_records{$})", "logstore {{follower}}"),
        ),
        _panel(
            "Written and not committed",
            "short",
            "Records that acks=all waits for.",
            ("sum by (instance) (barnabas_replication_uncommitted_records{$})", "{{instance}}"),
        ),
        _panel(
            "ISRs that shrink and expand",
            "short",
            "Many of both: followers that are just too slow for replica.lag.time.max.ms.",
            (f"sum by (instance) (rate({_REPLICAS}isrshrinkspersec_total{{$}}[$]))", "{{instance}} shrink"),
            (f"sum by (instance) (rate({_REPLICAS}isrexpandspersec_total{{$}}[$]))", "{{instance}} expand"),
            (f"sum by (instance) (rate({_REPLICAS}failedisrupdatespersec_total{{$}}[$]))", "{{instance}} failed"),
        ),
        _panel(
            "Replication",
            "Bps",
            "What followers take, and leaders give.",
            (f'sum by (instance) (rate({_TOPICS}replicationbytesinpersec_total{{$,topic=""}}[$]))', "{{instance}} in"),
            (f'sum by (instance) (rate({_TOPICS}replicationbytesoutpersec_total{{$,topic=""}}[$]))',
             "{{instance}} out"),
        ),
        _panel(
            "Leaders",
            "short",
            "Partitions that each logstore leads: even, but for drains and failures.",
            (f"sum by (instance) ({_REPLICAS}leadercount{{$}})", "{{instance}}"),
        ),
    ),
    "Purgatory": (
        _panel(
            "Parked",
            "short",
            "Entries that wait, by kind: produces for replicas, fetches for records, members for their group.",
            ("sum by (delayedoperation) (kafka_server_delayedoperationpurgatory_numdelayedoperations{$})",
             "{{delayedoperation}}"),
        ),
        _panel(
            "How waits end",
            "ops",
            "A produce that expires is REQUEST_TIMED_OUT; a fetch that does is an idle poll.",
            ("sum by (delayedoperation, outcome) (rate(barnabas_purgatory_completed_total{$}[$]))",
             "{{delayedoperation}} {{outcome}}"),
        ),
        _panel(
            "Wake-ups",
            "ops",
            "States of partitions and groups that somebody waited for.",
            ("sum by (instance) (rate(barnabas_purgatory_wake_ups_total{$}[$]))", "{{instance}}"),
        ),
        _panel(
            "How late timers are, p99",
            "ms",
            "Against the deadline that was the next.",
            (_p99("barnabas_purgatory_timer_lateness_ms", "instance"), "{{instance}}"),
        ),
    ),
    "Controller and etcd": (
        _panel(
            "Requests to the controller, p99",
            "ms",
            "Until what they have changed is known to everybody who has to know.",
            (_p99("barnabas_controller_request_time_ms", "request"), "{{request}}"),
        ),
        _panel(
            "Commands to logstores, p99",
            "ms",
            "From a command to its answer, by logstore: never behind data.",
            (_p99("barnabas_controller_control_time_ms", "logstore"), "logstore {{logstore}}"),
        ),
        _panel(
            "Commands that are not answered",
            "short",
            "By logstore; each answer is waited for 30 s.",
            ("sum by (logstore) (barnabas_controller_control_unanswered{$})", "logstore {{logstore}}"),
        ),
        _panel(
            "Elections",
            "short",
            "Leaders of partitions, those that were not in sync among them, and controllers.",
            ("sum(rate(kafka_controller_controllerstats_leaderelectionrateandtimems_total{$}[$]))", "leaders"),
            ("sum(rate(kafka_controller_controllerstats_uncleanleaderelectionspersec_total{$}[$]))", "unclean"),
            ("sum(rate(barnabas_controller_elections_total{$}[$]))", "controllers"),
        ),
        _panel(
            "etcd, p99",
            "ms",
            "As each service sees it. Transactions of the controller are what elections wait for.",
            (_p99("barnabas_etcd_request_time_ms", "instance, operation"), "{{instance}} {{operation}}"),
        ),
        _panel(
            "etcd's errors",
            "ops",
            "By operation and gRPC's status.",
            ("sum by (operation, status) (rate(barnabas_etcd_request_errors_total{$}[$]))", "{{operation}} {{status}}"),
        ),
        _panel(
            "Age of leases",
            "ms",
            "Since the last renewal was sent, of 6 s by default. A third of it is normal; all of it, and it is gone.",
            ("max by (instance) (barnabas_etcd_lease_renewal_age_ms{$})", "{{instance}}"),
        ),
        _panel(
            "Silence of the controller",
            "ms",
            "As gateways hear it; after controller.silence.max.ms they are not ready.",
            ("max by (instance) (barnabas_gateway_controller_silence_ms{$})", "{{instance}}"),
        ),
    ),
    "Groups": (
        _panel(
            "Groups, by state",
            "short",
            "Groups that are PreparingRebalance for long wait for a member that does not come.",
            ("sum by (state) (barnabas_group_count{$})", "{{state}}"),
        ),
        _panel(
            "Members and offsets",
            "short",
            "Of all coordinators.",
            ("sum(barnabas_group_members{$})", "members"),
            ("sum(kafka_coordinator_group_groupmetadatamanager_numoffsets{$})", "offsets"),
        ),
        _panel(
            "Commits and rebalances",
            "ops",
            "Offsets committed, generations begun.",
            ("sum(rate(kafka_server_group_coordinator_metrics_offset_commit_count_total{$}[$]))", "commits"),
            ("sum(rate(kafka_server_group_coordinator_metrics_group_completed_rebalance_count_total{$}[$]))",
             "rebalances"),
        ),
        _panel(
            "Calls that wait for a coordinator",
            "short",
            "And partitions of __consumer_offsets that are still being read.",
            ("sum by (instance) (barnabas_group_calls_waiting{$})", "{{instance}} calls"),
            ("sum by (instance) (barnabas_group_loading_partitions{$})", "{{instance}} loading"),
        ),
    ),
}  # fmt: skip


def document() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row, members in ROWS.items():
        panels.append({"type": "row", "title": row, "collapsed": False, "id": len(panels) + 1,
                       "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": top}, "panels": []})  # fmt: skip
        top += 1
        for number, panel in enumerate(members):
            place = {"h": _HEIGHT, "w": _WIDTH // 2, "x": _WIDTH // 2 * (number % 2), "y": top + number // 2 * _HEIGHT}
            panels.append(_panel_json(panel, len(panels) + 1, place))
        top += -(-len(members) // 2) * _HEIGHT
    return {
        "uid": UID,
        "title": "Barnabas",
        "description": "Written by scripts/dashboard; what each metric is, is in docs/reference/metrics.md.",
        "tags": ["barnabas", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                _variable("namespace", "label_values(barnabas_build_info, namespace)"),
                _variable("job", 'label_values(barnabas_build_info{namespace=~"$namespace"}, job)'),
            ]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panel_json(panel: Panel, panel_id: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": panel_id,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 8}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": query.expression,
             "legendFormat": query.legend}
            for number, query in enumerate(panel.queries)
        ],
    }  # fmt: skip


def page() -> str:
    return json.dumps(document(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(page())
