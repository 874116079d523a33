"""Topics to tables, exactly once: Iceberg, Delta and Parquet behind one contract."""
