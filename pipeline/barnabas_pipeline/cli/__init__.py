"""`barnabas-pipeline`: tables, maintain, replay."""
