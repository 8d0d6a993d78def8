"""The result backend of Celery: values, counters, expiry, waiting; and what an outage does to it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from threading import Thread
from time import monotonic
from typing import Any

import pytest
from celery import Celery, states
from celery.backends.base import Backend
from celery.exceptions import BackendStoreError
from celery.exceptions import TimeoutError as CeleryTimeoutError

import natsync
import natsync.kombu
from natsync.kombu.backend import ResultBackend
from natsync.kombu.results import Results

from tests.support.fake_server import Background
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

Make = Callable[..., ResultBackend]


@pytest.fixture
def make(js_server: NatsServer, stream_name: str) -> Iterator[Make]:
    """make(url, transport_options=..., **settings): one more backend on the same bucket."""
    natsync.kombu.register()
    made: list[ResultBackend] = []

    def backend(url: str = "", options: object = None, **settings: Any) -> ResultBackend:
        app = Celery("orders", backend=url or js_server.url, set_as_current=False)
        app.conf.update(settings)
        app.conf.result_backend_transport_options = {"prefix": stream_name, **(options or {})}
        made.append(app.backend)
        return made[-1]

    yield backend
    for each in made:
        each.close()


def test_celery_finds_it_by_its_url(make: Make) -> None:
    for scheme in ("nats", "natsync.kombu.backend:ResultBackend+nats"):
        backend = make(f"{scheme}://127.0.0.1/shop")
        assert isinstance(backend, ResultBackend)
        assert backend.as_uri() == "nats://127.0.0.1/shop"
    assert make("nats+tls://a").as_uri() == "tls://a"


@pytest.mark.parametrize(
    "url", ["nats://s3cret@h", "nats://u:s3cret@h,nats://u:s3cret@i/shop", "nats://u:s3/cret@h"]
)
def test_its_url_is_shown_without_secrets(make: Make, url: str) -> None:
    backend = make(url)
    assert "cret" not in backend.as_uri()
    assert backend.as_uri(include_password=True) == url


def test_results_are_kept(make: Make) -> None:
    one, other = make(), make()
    one.store_result("t1", {"teapots": 2}, states.SUCCESS)
    one.store_result("t 2 *", ValueError("no"), states.FAILURE)
    assert other.get_result("t1") == {"teapots": 2}
    assert isinstance(other.get_result("t 2 *"), ValueError)
    assert other.get_state("never") == states.PENDING
    found = dict(other.get_many(["t1", "t 2 *"], timeout=5))
    assert found["t1"]["result"] == {"teapots": 2}
    other.forget("t1")
    assert one._get_task_meta_for("t1")["status"] == states.PENDING


def test_a_process_has_one_client_for_all(make: Make, js_server: NatsServer) -> None:
    one, other = make(), make()
    client = one._client()
    assert other._client() is client
    assert make(options={"connect": {"name": "mine"}})._client() is not client
    thread = Background(one._client)
    assert thread.result() is client
    client.close()
    other.set("a", "1")  # with a new one
    assert one.get("a") == b"1"
    copy = pickle.loads(pickle.dumps(one))
    assert copy.url == one.url


def test_times_are_those_of_celery(make: Make) -> None:
    backend = make(result_expires=3600, result_failure_expires=60, result_chord_expires=1800)

    def remaining(key: str) -> float:
        return backend._results().last(key).remaining or 0.0

    backend.set("a", "1")
    assert 3590 < remaining("a") < 3610
    backend._set_with_state("b", "1", states.FAILURE)
    assert 50 < remaining("b") < 70
    backend.incr("c")
    if hasattr(backend, "chord_expires"):  # since Celery 5.7
        assert 1790 < remaining("c") < 1810
    else:
        assert 3590 < remaining("c") < 3610
        backend.expire("c", 1800)
    before = backend._results().last("c").revision
    backend.expire("c", 1800)  # it has that already
    assert backend._results().last("c").revision == before
    backend.expire("c", 600)
    assert 590 < remaining("c") < 610
    backend.expire("c", 0)
    assert backend._results().last("c") == (b"1", before + 2, None)
    backend.expire("never there", 10)
    assert backend.get("never there") is None


def test_nothing_expires_if_celery_says_so(make: Make) -> None:
    backend = make(result_expires=0)
    backend.set("a", "1")
    assert backend._results().last("a").remaining is None


def test_threads_count_together(make: Make) -> None:
    backend, counted = make(), []
    threads = [
        Thread(target=lambda: counted.extend(backend.incr("n") for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted) == [*range(1, 81)]


@pytest.mark.parametrize("stored", [True, False], ids=["answer lost", "request lost"])
@pytest.mark.parametrize("meanwhile", [0, 1])
def test_a_counter_is_exact_after_a_lost_answer(
    make: Make, monkeypatch: pytest.MonkeyPatch, stored: bool, meanwhile: int
) -> None:
    """Also if another worker has counted on before the attempt is repeated."""
    backend, other = make(), make()
    assert backend.incr("n") == 1
    write, failed = Results.write, []

    def lost(self: Results, *args: Any, **options: Any) -> None:
        if failed:
            return write(self, *args, **options)
        failed.append(True)
        if stored:
            write(self, *args, **options)
        for _ in range(meanwhile):
            other.incr("n")
        raise natsync.RequestTimeoutError("n", 1.0)

    monkeypatch.setattr(Results, "write", lost)
    assert backend.incr("n") == (2 if stored else 2 + meanwhile)
    assert backend.get("n") == b"%d" % (2 + meanwhile)


def test_a_result_is_told_at_once(make: Make) -> None:
    backend, other = make(), make()
    other.store_result("t", None, states.STARTED)
    calls: list[float] = []
    waiting = Background(
        lambda: backend.wait_for(
            "t", timeout=50, interval=40, on_interval=lambda: calls.append(monotonic())
        )
    )
    eventually(lambda: calls)
    began = monotonic()
    other.store_result("t", "done", states.SUCCESS)
    assert waiting.result()["result"] == "done"
    assert monotonic() - began < 10
    assert backend.wait_for("t")["result"] == "done"  # at once: it is there


def test_waiting_ends_in_time(make: Make) -> None:
    backend, calls = make(), []
    with pytest.raises(CeleryTimeoutError):
        backend.wait_for("t", timeout=1.0, interval=0.1, on_interval=lambda: calls.append(1))
    assert 2 <= len(calls) <= 12
    with pytest.raises(CeleryTimeoutError):
        backend.wait_for("t", timeout=0)


def test_a_result_that_is_too_large(make: Make, js_server: NatsServer) -> None:
    backend = make()
    with pytest.raises(BackendStoreError, match="1048576"):
        backend.store_result("t", "x" * (1 << 20), states.SUCCESS)


def test_calls_outlast_an_outage(start_server: StartServer, make: Make) -> None:
    server = start_server(JETSTREAM)
    backend = make(server.url, {"retry_policy": {"interval_max": 0.1, "max_retries": 100}})
    backend.set("a", "1")
    server.stop()
    setting = Background(lambda: backend.set("a", "2"))
    counting = Background(lambda: [backend.incr("n") for _ in range(3)])
    server.start()
    setting.result(30)
    assert counting.result(30) == [1, 2, 3]
    assert backend.get("a") == b"2"


def test_a_deleted_bucket_is_made_again(make: Make, js_server: NatsServer) -> None:
    backend = make(options={"retry_policy": {"interval_step": 0.01, "interval_max": 0.1}})
    backend.set("a", "1")
    with js_server.connect() as nc:
        nc.jetstream().delete_key_value(backend._config.bucket)
    assert backend.get("a") is None
    backend.set("a", "2")
    assert backend.get("a") == b"2"


def test_retries_have_an_end(make: Make, start_server: StartServer) -> None:
    server = start_server(JETSTREAM)
    server.stop()
    backend = make(server.url, {"retry_policy": {"interval_step": 0.01, "max_retries": 2}})
    with pytest.raises(natsync.ConnectError) as caught:
        backend.get("a")
    assert backend.exception_safe_to_retry(caught.value)
    assert not backend.exception_safe_to_retry(ValueError())
    assert isinstance(backend, Backend)
