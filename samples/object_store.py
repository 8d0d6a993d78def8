"""An object store: contents in chunks, read as a file, checked, linked to and deleted."""

import os

import natsync
from natsync.object_store import ObjectMeta, ObjectNotFoundError

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
CONTENT = bytes(range(256)) * 4000

with natsync.connect(URL, name="sample") as nc:
    js = nc.jetstream()
    store = js.create_object_store("sample-reports")

    info = store.put(ObjectMeta("2026/report.bin", description="all bytes"), CONTENT)
    print(info.size, "bytes in", info.chunks, "chunks")

    with store.get("2026/report.bin") as file:
        print(file.read(4))
    print(store.get_bytes("2026/report.bin") == CONTENT)

    store.add_link("latest", info)
    print([found.name for found in store.list()], len(store.get_bytes("latest")))

    store.delete("2026/report.bin")
    try:
        store.get("latest")
    except ObjectNotFoundError as error:
        print(error)
    js.delete_object_store("sample-reports")
