"""Requests of gateways for Kafka's administrative APIs: one file per kind of request.

Each module answers one kind of request, in pieces: its method is a generator (`dispatch.Work`) that does a little,
about as much as one append costs, yields `Pause.MORE`, and in the end returns the response. One that has to wait, for a
disk or for followers, yields `now_ms = yield Pause.WAITING`: it is resumed by `Administration.poke`, and by each tick,
so it keeps its own deadline. Partitions are refused with Kafka's error codes; nothing is raised. When the caller is
gone, the generator is closed.

`dispatch.py` has the table of them, and runs the calls: after control and beside the data.
"""
