"""Log compaction: of every key the latest record stays. `cleaning_pass` is one pass over one log."""
