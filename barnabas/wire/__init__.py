"""The Kafka protocol, pure: primitives, schema tables, API keys, errors, frames and record batches.

Nothing here does I/O or knows the time. Bytes come in as arguments, buffers go out as results, and whatever a peer can
get wrong is one exception, `MalformedFrame`.
"""
