"""A context around each handler: here a database connection; in Django, `close_old_connections`.

Handlers run on threads of their own, which no web framework cleans up after.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
here = threading.local()


@contextmanager
def database(msg: natsync.Msg) -> Iterator[None]:
    with closing(sqlite3.connect(":memory:")) as connection, connection:  # commits, or rolls back
        here.connection = connection
        yield


def count(msg: natsync.Msg) -> None:
    row = here.connection.execute("SELECT length(?)", [msg.data.decode()]).fetchone()
    msg.respond(str(row[0]).encode())


with natsync.connect(URL, name="sample", handler_context=database) as nc:
    nc.subscribe("length", handler=count)
    print(nc.request("length", b"four", timeout=2).data.decode())
