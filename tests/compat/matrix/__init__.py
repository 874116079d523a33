"""Real clients of many languages against Barnabas, capability by capability: `make compat`."""
