"""The process that `barnabas up` leaves behind: it restarts services that die (docs/adr/0039).

It runs for as long as the cluster does and must stay small, so nothing here imports more than a few modules of the
standard library; `__main__.py` keeps `barnabas` from selecting cores, which only services need.
"""
