"""A bucket: values with revisions, a counter that two writers share, a watch, and a mapping."""

import os

import natsync
from natsync.kv import BucketMapping, KeyValueConfig, WrongLastRevisionError

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with natsync.connect(URL, name="sample") as nc:
    js = nc.jetstream()
    kv = js.create_key_value(KeyValueConfig("sample-settings", history=5, storage="memory"))
    try:
        kv.put("colour", b"blue")
        kv.put("colour", b"green")
        print([entry.value.decode() for entry in kv.history("colour")])

        kv.create("count", b"0")
        for _ in range(3):
            while True:
                entry = kv.get("count")
                try:
                    kv.update("count", b"%d" % (int(entry.value) + 1), entry.revision)
                    break
                except WrongLastRevisionError:
                    pass  # somebody else was faster
        print("count", kv.get("count").value.decode())

        with kv.watch() as watcher:
            for found in watcher.initial():
                print(found.key, found.value.decode())
            kv.delete("colour")
            change = watcher.next(timeout=5)
            if change:
                print(change.key, change.operation.value, change.revision)

        print(dict(BucketMapping(kv)))
    finally:
        js.delete_key_value("sample-settings")
