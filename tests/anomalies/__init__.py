"""Anomalies in histories of transactions, found by the cycles of their dependencies, as Elle does (Kingsbury, Alvaro).

    history = TransactionHistory(transactions, logs)      # tests/anomalies/history.py
    anomalies = find_anomalies(history)                   # tests/anomalies/find.py

A partition of a log is a list that transactions append to, and whose prefix they read: its offsets are the order of the
writes, so the history is recoverable, and the dependencies need no guessing.

- ww: a transaction appends right behind what another has appended.
- wr: a transaction reads what another has appended.
- rw: a transaction reads up to some offset, and another appends the next record.

G0 is a cycle of ww edges, G1a a read of what was aborted, G1b a read of part of what a transaction has appended, G1c a
cycle of ww and wr edges, G-single a cycle with one rw edge, G2-item one with several. Besides these there are the
anomalies of a log: a committed record that is lost, or there twice, and a reader that goes backwards or leaves
something out.

Kafka's model allows the cycles. A read_committed consumer of several partitions may see a transaction in one of them
before it does in another (G-single, G2-item); and writes of two open transactions may be in one order in one partition,
in the other order in another (G0, and so G1c where they are read). `find.KAFKA` names what must not be found.
"""
