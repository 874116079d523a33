"""The faults themselves: every kind can strike, and what strikes does what it says."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.clocks import Clock
from tests.sim.disk_model import DiskModel, MachineStopped
from tests.sim.faults import Fault
from tests.sim.faults.swarm import FAMILIES
from tests.sim.network import End, Network
from tests.sim.process import CrashPoint, Process
from tests.sim.protocols import KAFKA, PARK
from tests.sim.scheduler import MS, SECOND, Scheduler
from tests.sim.weather import Weather


class Host(Process):
    """Takes note of what arrives."""

    def __init__(self, name: str, scheduler: Scheduler, network: Network) -> None:
        super().__init__(name, scheduler, network)
        self.got: list[bytes] = []
        self.lost: list[str] = []
        self.start()

    def boot(self) -> None:
        self.network.listen(self.name, self, lambda end: self)

    def on_message(self, message: bytes) -> None:
        self.got.append(message)

    def on_closed(self, reason: str) -> None:
        self.lost.append(reason)


class Pair:
    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.network = Network(self.scheduler, encode=False)
        self.a, self.b = (Host(name, self.scheduler, self.network) for name in "ab")

    def connected(self, kind: object = KAFKA) -> End:
        end = self.network.connect(kind, self.a, "b", self.a)  # type: ignore[arg-type]
        self.wait(100 * MS)
        return end

    def wait(self, duration_us: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + duration_us)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_every_kind_can_strike() -> None:
    strikes = [fault for family in FAMILIES for fault in family.STRIKES]
    assert len(strikes) == len(set(strikes))
    assert set(strikes) == set(Fault)


def test_losses_and_jitter_keep_the_order_of_a_connection(pair: Pair) -> None:
    hits: list[None] = []
    pair.network.weather["a", "b"] = Weather(lambda: hits.append(None), loss=0.5, jitter_us=50 * MS)
    end = pair.connected()
    for number in range(50):
        end.send(b"%d" % number)
    pair.wait(60 * SECOND)
    assert pair.b.got == [b"%d" % number for number in range(50)]
    assert hits


def test_jitter_lets_connections_overtake_each_other(pair: Pair) -> None:
    hits: list[None] = []
    first, second = pair.connected(), pair.connected()
    pair.network.weather["a", "b"] = Weather(lambda: hits.append(None), jitter_us=50 * MS)
    for number in range(20):
        (first if number % 2 else second).send(b"%d" % number)
    pair.wait(SECOND)
    assert sorted(pair.b.got, key=int) != pair.b.got
    assert hits


def test_a_cut_hits_when_something_would_have_passed(pair: Pair) -> None:
    hits: list[None] = []
    end = pair.connected()
    pair.network.cut("a", "b", lambda: hits.append(None))
    pair.wait(SECOND)
    assert not hits
    end.send(b"held up")
    pair.wait(SECOND)
    assert hits
    assert pair.b.got == []
    pair.network.heal("a", "b")
    pair.wait(SECOND)
    assert pair.b.got == [b"held up"]


def test_a_torn_message_arrives_in_part_and_nothing_after_it(pair: Pair) -> None:
    end = pair.connected()
    message = bytes(range(100))
    while not pair.network.tear("b"):
        end.send(message)
    end.send(b"too late")
    pair.wait(SECOND)
    assert message.startswith(pair.b.got[-1])
    assert pair.b.got[-1] != message
    assert pair.b.lost == ["closed by the peer"]
    assert pair.a.lost == ["reset"]


def test_one_side_believes_in_a_half_open_connection_until_it_speaks(pair: Pair) -> None:
    end = pair.connected()
    assert pair.network.half_open("b", 1.0) == 1
    pair.wait(10 * SECOND)
    assert pair.b.lost == ["reset"]
    assert pair.a.lost == []
    end.send(b"are you there?")
    pair.wait(SECOND)
    assert pair.a.lost == ["reset: no such connection"]


def test_where_there_are_heartbeats_silence_ends_it(pair: Pair) -> None:
    pair.connected(PARK)
    assert pair.network.half_open("b", 1.0) == 1
    pair.wait(4 * SECOND)
    assert pair.a.lost == ["silent for 3 s"]


def test_a_machine_that_vanishes_refuses_no_connection(pair: Pair) -> None:
    pair.connected(PARK)
    pair.b.vanish()
    pair.connected()
    pair.wait(4 * SECOND)
    assert sorted(pair.a.lost) == ["connecting timed out", "silent for 3 s"]
    pair.b.start()
    pair.connected().send(b"back")
    pair.wait(SECOND)
    assert pair.b.got == [b"back"]


def test_a_process_dies_at_the_chosen_place(pair: Pair) -> None:
    pair.a.crash_points[CrashPoint.WRITTEN] = pair.a.kill
    assert not pair.a.reached(CrashPoint.TRUNCATED)
    assert pair.a.reached(CrashPoint.WRITTEN)
    assert not pair.a.alive
    assert not pair.a.reached(CrashPoint.WRITTEN)


def test_a_monotonic_clock_never_goes_back_whatever_its_rate() -> None:
    scheduler, random = Scheduler(1), Random(1)
    clock = Clock(scheduler)
    seen = 0
    for _ in range(200):
        clock.run_at(random.choice((-10_000, 0, 500, 10_000)))
        scheduler.now_us += random.randrange(2 * SECOND)
        assert clock.elapsed_us >= seen
        seen = clock.elapsed_us
    clock.run_at(10_000)
    scheduler.now_us += 100 * SECOND
    assert clock.elapsed_us - seen == 101 * SECOND


def test_a_bit_flips_for_good() -> None:
    disk = DiskModel()
    file = disk.open("/f", create=True)
    disk.write_at(file, 0, (b"\0\0\0\0",))
    disk.flip_bit("/f", 2, 3)
    disk.flush(disk.open("/f"))
    disk.flush_directory("")
    disk.lose_power(Random(1))
    assert disk.peek("/f") == b"\0\0\x08\0"


def test_a_file_that_is_open_reads_as_it_was_before_a_bit_flipped() -> None:
    """Seed 118 of the sparse profile: a gateway sent a range of the file of a logstore that was down."""
    disk = DiskModel()
    file = disk.open("/f", create=True)
    disk.write_at(file, 0, (b"\0\0",))
    disk.flip_bit("/f", 0, 3)
    assert disk.read_at(file, 0, 2) == b"\0\0"
    assert disk.read_at(disk.open("/f"), 0, 2) == b"\x08\0"


def test_a_lost_file_stays_lost() -> None:
    disk = DiskModel()
    disk.flush(disk.open("/f", create=True))
    disk.lose_file("/f")
    disk.lose_power(Random(1))
    assert not disk.exists("/f")


def test_a_process_ends_in_the_midst_of_a_disk_operation(pair: Pair) -> None:
    disk = DiskModel()
    disk.interrupt_after = 0
    reported: list[bool] = []

    def write() -> None:
        disk.open("/f", create=True)
        reported.append(True)

    pair.a.after(1, "writes", write)
    pair.wait(SECOND)
    assert not reported
    assert not pair.a.alive
    disk.interrupt_after = 0
    with pytest.raises(MachineStopped):
        disk.open("/f", create=True)
