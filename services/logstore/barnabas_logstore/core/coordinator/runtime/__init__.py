"""What every kind of coordinator has: leadership, loading, appending, what waits for the commit, timers, lists."""
