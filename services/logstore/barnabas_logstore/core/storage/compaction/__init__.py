"""Log compaction: keep the latest record of every key. `cleaning_pass` is one pass over one log."""
