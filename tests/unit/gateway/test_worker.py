"""Pieces of work run one after the other on a thread, which outlives what goes wrong in one."""

from __future__ import annotations

import asyncio
import threading

from barnabas_gateway.shell.worker import Worker


class Scripted:
    """Stands for a conversion, or a token."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.fault = ""
        self.has_run = False

    def run(self) -> None:
        assert threading.current_thread().name == "scripted"
        if self.fails:
            raise RuntimeError("a fault of ours")
        self.has_run = True


async def test_pieces_come_back_in_order_and_a_fault_with_its_traceback() -> None:
    done: list[tuple[Scripted, float]] = []
    worker = Worker[Scripted]("scripted", Scripted.run, lambda each, elapsed_ms: done.append((each, elapsed_ms)))
    worker.stop()  # Nothing was begun.
    pieces = [Scripted(), Scripted(fails=True), Scripted()]
    for piece in pieces:
        worker.submit(piece)
    while len(done) < len(pieces):
        await asyncio.sleep(0.001)
    worker.stop()
    assert [piece for piece, _ in done] == pieces
    assert all(elapsed_ms >= 0 for _, elapsed_ms in done)
    assert [piece.has_run for piece in pieces] == [True, False, True]
    assert "a fault of ours" in pieces[1].fault
