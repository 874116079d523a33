"""Everything that can go wrong, by family. A kind that hits nobody in a whole campaign is no fault at all."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    # The network.
    LOSS = "packets lost, which TCP repeats late"
    JITTER = "messages delayed and overtaken"
    CUT = "cut between two hosts"
    CUT_ONE_WAY = "cut in one direction"
    ISOLATE = "one host cut off from all"
    SPLIT = "the hosts in two halves"
    BRIDGE = "two halves, and one host that sees both"
    HALF_OPEN = "connections that only one side believes in"
    SLOW = "a slow host"
    SLOW_LINK = "a slow link"
    RESET = "connections reset mid-stream"
    RESET_MID_FRAME = "connections reset in the midst of a message"
    # Processes.
    KILL_LOGSTORE = "kill -9 of a logstore"
    KILL_GATEWAY = "kill -9 of a gateway"
    KILL_PURGATORY = "kill -9 of a purgatory pod"
    KILL_PARKED = "kill -9 of a purgatory pod that holds requests"
    KILL_CONTROLLER = "kill -9 of the active controller"
    KILL_ALL_LOGSTORES = "kill -9 of all logstores at once"
    RESTART_STORM = "several processes killed, again and again"
    TERMINATE_LOGSTORE = "SIGTERM of a logstore"
    VANISH = "a machine without a disk gone without a word"
    PAUSE = "pause within the lease"
    PAUSE_PAST_LEASE = "pause past the lease"
    SLOW_CPU = "turns that take long"
    CRASH_WRITTEN = "crash between an append and its answer"
    CRASH_TRUNCATED = "crash after a truncation"
    CRASH_ALTER_PARTITION = "crash after asking for another ISR"
    CRASH_BETWEEN_TXNS = "crash of a controller between two steps"
    CRASH_IN_DISK_OPERATION = "crash within an operation of the disk"
    # Disks of logstores.
    POWER_CUT = "power cut at a logstore"
    TORN_WRITE = "power cut in the midst of a write"
    DISK_FULL = "a disk full for a while"
    READ_ERROR = "a read that fails"
    WRITE_ERROR = "a write that fails"
    FLUSH_ERROR = "a flush that fails"
    BIT_FLIP = "a flipped bit in a log at rest"
    SLOW_DISK = "a disk that stalls"
    CHECKPOINT_LOST = "a checkpoint or index missing or torn"
    MARKER_LOST = "a clean stop without its marker"
    # Clocks.
    CLOCK_JUMP = "a wall clock that jumps"
    CLOCK_SKEW = "wall clocks that differ"
    CLOCK_STROBE = "a wall clock that jumps forth and back all the time"
    CLOCK_RATE = "a monotonic clock that is fast or slow"
    # etcd.
    KILL_ETCD = "restart of etcd"
    RESET_ETCD = "connections to etcd reset, with answers on their way"
    ETCD_LEADER_LOSS = "etcd without a leader for some seconds"
    ETCD_QUORUM_LOSS = "etcd without a quorum for long"
    TXN_LOST = "a Txn lost on its way to etcd"
    TXN_ANSWER_LOST = "the answer to a Txn lost"
    WATCH_LAG = "watches that lag behind"
    COMPACTION = "etcd's history compacted"
    LEASE_ENDS_EARLY = "a lease that ends early"
    # Clients.
    KILL_CLIENT = "kill -9 of a client"
    ZOMBIE_PRODUCER = "a producer that wakes after all its requests are over"
    RETRY_STORM = "all clients reconnecting and repeating at once"
