"""What gateways ask of this logstore for Kafka's administrative APIs: one file per kind of question.

A room answers one kind of request, in pieces: its method is a generator (`dispatch.Work`) that does a little, about as
much as one append costs, says `yield Pause.MORE`, and in the end returns the response. One that has to wait, for a disk
or for followers, says `now_ms = yield Pause.WAITING`: it is resumed by `Administration.poke`, and by each tick, so it
keeps its own deadline. A room refuses partitions by Kafka's error codes; it raises nothing. When its caller is gone the
generator is closed.

`dispatch.py` has the table of them, and gives the calls their turns: after control and beside the data.
"""
