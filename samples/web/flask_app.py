"""A Flask application that asks a NATS service.

    pip install natsync flask gunicorn
    gunicorn --workers 2 --threads 4 --preload flask_app:app

or, after `pip install uwsgi`:

    uwsgi --http 127.0.0.1:8000 --master --processes 2 --threads 4 --module flask_app:app

One client is made at module level and shared by all threads. With uWSGI, and with `--preload`, the workers
are forked from the process that made it: each worker's copy connects anew at its first call.
"""

import os

from flask import Flask

import natsync

nc = natsync.connect(
    os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), name="flask", retry_on_failed_connect=True
)
app = Flask(__name__)


@app.get("/price/<item>")
def price(item: str) -> tuple[str, int]:
    try:
        return nc.request(f"price.{item}", timeout=2).data.decode(), 200
    except natsync.ProtocolError:
        return "no such item", 404  # such as `a b` or `>`, which are not subjects
    except natsync.NoRespondersError:
        return "the price service is down", 503
    except natsync.RequestTimeoutError:
        return "the price service is slow", 504
    except natsync.ConnectionReconnectingError as error:
        return f"no connection to NATS: {error}", 503
