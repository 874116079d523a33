"""PromQL in small: what the dashboard and the alert rules are written in, parsed, and evaluated over samples."""
