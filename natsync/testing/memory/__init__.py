"""A NATS server in this process, for unit tests: see `MemoryServer`.

`server` has the sockets and the timers; `session` is one connection, `router` passes messages on; `api`
answers the calls of JetStream for `stream` and `consumer`. Only `server` knows threads and clocks.
"""

from .server import MemoryServer

__all__ = ["MemoryServer"]
