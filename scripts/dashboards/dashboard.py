"""The declaration of the Grafana dashboard, from which `scripts/dashboard` writes
`deploy/observability/dashboard.json`.

`{$}` in an expression is the selector of the templated namespace and job; `[$]` the range that Grafana chooses.
"""

from __future__ import annotations

from dataclasses import dataclass

_SELECTOR = 'namespace=~"$namespace",job=~"$job"'


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
    """`unit` is Grafana's; `about` explains the panel."""

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


_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
_REPLICAS = "kafka_server_replicamanager_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_CONTROLLER = "kafka_controller_kafkacontroller_"
_TOTAL = "kafka_network_requestmetrics_totaltimems"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Health": (
        _panel(
            "Unhealthy partitions",
            "short",
            "Above zero, some data is less safe or unavailable. The rows below show where.",
            (f"sum({_CONTROLLER}offlinepartitionscount{{$}})", "offline"),
            ("sum(barnabas_controller_under_replicated_partitions{$})", "under-replicated"),
            (f"sum({_REPLICAS}underminisrpartitioncount{{$}})", "under min ISR"),
            (f"sum({_REPLICAS}offlinereplicacount{{$}})", "replicas offline"),
        ),
        _panel(
            "Nodes",
            "short",
            "One controller is active. A known logstore that is not registered is fenced.",
            (f"sum({_CONTROLLER}activecontrollercount{{$}})", "active controllers"),
            (f"sum({_CONTROLLER}activebrokercount{{$}})", "logstores"),
            (f"sum({_CONTROLLER}fencedbrokercount{{$}})", "fenced logstores"),
            ("sum(barnabas_gateway_processors{$})", "processors"),
        ),
        _panel(
            "Records in and out",
            "Bps",
            "Client traffic; replication is in its own row.",
            (f'sum(rate({_TOPICS}bytesinpersec_total{{$,topic=""}}[$]))', "in"),
            (f'sum(rate({_TOPICS}bytesoutpersec_total{{$,topic=""}}[$]))', "out"),
        ),
        _panel(
            "Errors in responses",
            "reqps",
            "By Kafka's name. Some are normal, such as NOT_LEADER_OR_FOLLOWER after a failover.",
            ('sum by (request, error) (rate(kafka_network_requestmetrics_errorspersec_total{$,error!="NONE"}[$]))',
             "{{request}} {{error}}"),
        ),
        _panel(
            "How late event loops are, p99",
            "ms",
            "Identifies a process that is overloaded or not running: stopped, throttled, swapping.",
            (_p99("barnabas_loop_lateness_ms", "instance, process"), "{{instance}} {{process}}"),
        ),
        _panel(
            "Longest turn of event loops",
            "ms",
            "The maximum wait of new input in the last one to two minutes. It does not grow "
            "with the elements of a request; creating or deleting thousands of partitions takes longer.",
            ("max by (instance, process) (barnabas_loop_longest_turn_ms{$})", "{{instance}} {{process}}"),
        ),
        _panel(
            "CPU",
            "percentunit",
            "CPU usage of each process; 1 is a whole core, the maximum of one process.",
            ("sum by (instance, process) (rate(process_cpu_seconds_total{$}[$]))", "{{instance}} {{process}}"),
        ),
        _panel(
            "Memory",
            "bytes",
            "Resident memory, by pod.",
            ("sum by (instance) (process_resident_memory_bytes{$})", "{{instance}}"),
        ),
        _panel(
            "Processes lost or silent",
            "short",
            "Processors that died, and scrapes that a process did not answer.",
            ("sum by (instance) (increase(barnabas_gateway_processor_deaths_total{$}[$]))", "{{instance}} died"),
            ("sum by (instance) (increase(barnabas_metrics_silent_processes_total{$}[$]))", "{{instance}} silent"),
        ),
    ),
    "Requests by hop": (
        _panel(
            "Requests",
            "reqps",
            "By API; a follower's fetch is FetchFollower.",
            ("sum by (request) (rate(kafka_network_requestmetrics_requestspersec_total{$}[$]))", "{{request}}"),
        ),
        _panel(
            "Total time, p99",
            "ms",
            "From a request's last byte until its response is written. FetchConsumer includes the wait of long polls.",
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
            "purgatory: for new records, as the client has requested.",
            (_mean("barnabas_request_hop_ms", "hop", 'request="FetchConsumer"'), "{{hop}}"),
        ),
        _panel(
            "Answers of each logstore, p99",
            "ms",
            "From a gateway's append or query until the answer: shows which logstore is slow.",
            (_p99("barnabas_gateway_logstore_answer_ms", "logstore"), "logstore {{logstore}}"),
        ),
        _panel(
            "Unanswered, by logstore",
            "short",
            "Requests at a logstore. A logstore whose line grows alone is where requests queue.",
            ("sum by (logstore, kind) (barnabas_gateway_logstore_unanswered{$})", "logstore {{logstore}} {{kind}}"),
        ),
        _panel(
            "Waiting for credit, by logstore",
            "short",
            "Backpressure: the logstore grants no more credit. Clients of other logstores are not affected.",
            ("sum by (logstore, kind) (barnabas_gateway_logstore_waiting{$})", "logstore {{logstore}} {{kind}}"),
        ),
        _panel(
            "Queues and idle processors",
            "short",
            "Requests not started, responses behind others, and the fraction of time in which a processor is idle.",
            ("sum(kafka_network_requestchannel_requestqueuesize{$})", "requests queued"),
            ("sum(kafka_network_requestchannel_responsequeuesize{$})", "answers queued"),
            ("min(kafka_network_socketserver_networkprocessoravgidlepercent{$})", "least idle processor"),
        ),
        _panel(
            "Connections",
            "short",
            "Client connections, by listener.",
            ("sum by (listener) (kafka_server_socket_server_metrics_connection_count{$})", "{{listener}}"),
        ),
        _panel(
            "Connections opened and closed",
            "cps",
            "Clients that reconnect often cost more than those that stay connected.",
            ("sum(rate(kafka_server_socket_server_metrics_connection_creation_total{$}[$]))", "opened"),
            ("sum(rate(kafka_server_socket_server_metrics_connection_close_total{$}[$]))", "closed"),
        ),
    ),
    "Logstores": (
        _panel(
            "Time that a produce is at a logstore, mean",
            "ms",
            "As the logstore measures it: in its queue, and in processing, including the write.",
            (_mean("barnabas_logstore_request_ms", "instance, part", 'request="Produce"'), "{{instance}} {{part}}"),
        ),
        _panel(
            "Disk, p99",
            "ms",
            "By operation; loop: in a turn of the data loop, where it delays everything else.",
            (_p99("barnabas_logstore_io_time_ms", "instance, effect, by"), "{{instance}} {{effect}} ({{by}})"),
        ),
        _panel(
            "Flushes, p99",
            "ms",
            "Of closed segments, or of every write if flush.messages requires it.",
            (_p99("kafka_log_logflushstats_logflushrateandtimems", "instance"), "{{instance}}"),
        ),
        _panel(
            "Disk operations that wait for IO workers",
            "short",
            "If it stays above num.io.threads, the disks can't keep up.",
            ("sum by (instance) (barnabas_logstore_io_queue_size{$})", "{{instance}}"),
        ),
        _panel(
            "Idle fraction of handlers",
            "percentunit",
            "Of the data loop, and of the IO workers.",
            ("min by (instance, handler) (kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent{$})",
             "{{instance}} {{handler}}"),
        ),
        _panel(
            "Free on the disks",
            "bytes",
            "Of each log directory. Retention does not consider it: a full disk accepts no appends.",
            ("min by (instance, directory) (barnabas_log_directory_free_bytes{$})", "{{instance}} {{directory}}"),
        ),
        _panel(
            "Logs, by topic",
            "bytes",
            "Sum of all replicas; the first topics of each logstore, and __other__.",
            ("sum by (topic) (barnabas_log_size_bytes{$})", "{{topic}}"),
        ),
        _panel(
            "Cleaner",
            "percent",
            "The dirtiest log, and logs that can't be cleaned any more.",
            ("max by (instance) (kafka_log_logcleanermanager_max_dirty_percent{$})", "{{instance}} dirty"),
            ("sum by (instance) (kafka_log_logcleanermanager_uncleanable_partitions_count{$})",
             "{{instance}} uncleanable"),
        ),
    ),
    "Replication": (
        _panel(
            "Under-replicated, by leader",
            "short",
            "Partitions led by a logstore with a replica that is not in sync.",
            (f"sum by (instance) ({_REPLICAS}underreplicatedpartitions{{$}})", "{{instance}}"),
        ),
        _panel(
            "Follower lag",
            "short",
            "In records, in the partition with the maximum lag of a follower, as leaders see it.",
            ("max by (follower) (barnabas_replication_follower_lag_records{$})", "logstore {{follower}}"),
        ),
        _panel(
            "Written and not committed",
            "short",
            "Records that acks=all waits for.",
            ("sum by (instance) (barnabas_replication_uncommitted_records{$})", "{{instance}}"),
        ),
        _panel(
            "ISR shrinks and expansions",
            "short",
            "Many of both: followers that are just too slow for replica.lag.time.max.ms.",
            (f"sum by (instance) (rate({_REPLICAS}isrshrinkspersec_total{{$}}[$]))", "{{instance}} shrink"),
            (f"sum by (instance) (rate({_REPLICAS}isrexpandspersec_total{{$}}[$]))", "{{instance}} expand"),
            (f"sum by (instance) (rate({_REPLICAS}failedisrupdatespersec_total{{$}}[$]))", "{{instance}} failed"),
        ),
        _panel(
            "Replication",
            "Bps",
            "Bytes that followers fetch, and leaders send.",
            (f'sum by (instance) (rate({_TOPICS}replicationbytesinpersec_total{{$,topic=""}}[$]))', "{{instance}} in"),
            (f'sum by (instance) (rate({_TOPICS}replicationbytesoutpersec_total{{$,topic=""}}[$]))',
             "{{instance}} out"),
        ),
        _panel(
            "Leaders",
            "short",
            "Partitions led by each logstore: even, except for drains and failures.",
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
            "States of partitions and groups that an entry waited for.",
            ("sum by (instance) (rate(barnabas_purgatory_wake_ups_total{$}[$]))", "{{instance}}"),
        ),
        _panel(
            "How late timers are, p99",
            "ms",
            "Compared with the next deadline.",
            (_p99("barnabas_purgatory_timer_lateness_ms", "instance"), "{{instance}}"),
        ),
    ),
    "Controller and etcd": (
        _panel(
            "Requests to the controller, p99",
            "ms",
            "Until all affected services have applied the change.",
            (_p99("barnabas_controller_request_time_ms", "request"), "{{request}}"),
        ),
        _panel(
            "Commands to logstores, p99",
            "ms",
            "From a command to its answer, by logstore: never behind data.",
            (_p99("barnabas_controller_control_time_ms", "logstore"), "logstore {{logstore}}"),
        ),
        _panel(
            "Unanswered commands",
            "short",
            "By logstore; each command times out after 30 s.",
            ("sum by (logstore) (barnabas_controller_control_unanswered{$})", "logstore {{logstore}}"),
        ),
        _panel(
            "Elections",
            "short",
            "Elections of partition leaders, including unclean ones, and of controllers.",
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
            "Time since the last renewal was sent; at the TTL (default: 6 s) the lease expires; a third is normal.",
            ("max by (instance) (barnabas_etcd_lease_renewal_age_ms{$})", "{{instance}}"),
        ),
        _panel(
            "Time since the controller was heard",
            "ms",
            "At gateways; after controller.silence.max.ms they are not ready.",
            ("max by (instance) (barnabas_gateway_controller_silence_ms{$})", "{{instance}}"),
        ),
    ),
    "Groups": (
        _panel(
            "Groups, by state",
            "short",
            "Groups that stay in PreparingRebalance wait for a member that does not join.",
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
            "Committed offsets and completed rebalances.",
            ("sum(rate(kafka_server_group_coordinator_metrics_offset_commit_count_total{$}[$]))", "commits"),
            ("sum(rate(kafka_server_group_coordinator_metrics_group_completed_rebalance_count_total{$}[$]))",
             "rebalances"),
        ),
        _panel(
            "Calls that wait for a coordinator",
            "short",
            "Also partitions of __consumer_offsets that are still being loaded.",
            ("sum by (instance) (barnabas_group_calls_waiting{$})", "{{instance}} calls"),
            ("sum by (instance) (barnabas_group_loading_partitions{$})", "{{instance}} loading"),
        ),
    ),
    "Transactions": (
        _panel(
            "Transactional ids, by state",
            "short",
            "Many in PrepareCommit or PrepareAbort: markers are not written.",
            ("sum by (state) (barnabas_transaction_ids{$})", "{{state}}"),
        ),
        _panel(
            "How transactions end",
            "ops",
            "timeout: it took longer than its producer allowed. fenced: requests of producers that have been replaced.",
            ("sum by (result) (rate(barnabas_transaction_ends_total{$}[$]))", "{{result}}"),
            ("sum(rate(barnabas_transaction_producers_fenced_total{$}[$]))", "fenced"),
        ),
        _panel(
            "Ends that are not complete",
            "short",
            "Markers are not all written, or the completion is refused; also partitions that are still being loaded.",
            ("sum by (instance) (barnabas_transaction_unwritten_ends{$})", "{{instance}} markers"),
            (f"sum by (instance) ({_MARKERS}logappendretryqueuesize{{$}})", "{{instance}} completions"),
            ("sum by (instance) (barnabas_transaction_loading_partitions{$})", "{{instance}} loading"),
        ),
        _panel(
            "Open for how long",
            "ms",
            "The oldest ongoing transaction of each coordinator.",
            ("max by (instance) (barnabas_transaction_ongoing_time_max_ms{$})", "{{instance}}"),
        ),
        _panel(
            "Partitions where a transaction hangs",
            "short",
            "Consumers of committed records wait there.",
            (f"sum by (instance) ({_REPLICAS}partitionswithlatetransactionscount{{$}})", "{{instance}}"),
        ),
    ),
}  # fmt: skip
