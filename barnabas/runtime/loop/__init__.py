"""The event loop of a service: what is read and written without a step of asyncio between, and when idle parts rest."""
