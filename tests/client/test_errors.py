"""Errors: facts as attributes, one sentence, picklable, caught by the builtin they resemble."""

from __future__ import annotations

import builtins
import copy
import inspect
import pickle

import pytest

import natsync
from natsync import errors
from natsync.errors import Error

SAMPLES: list[Error] = [
    errors.OptionError("timeout", "must be above 0"),
    errors.CredentialsError("credentials", "file 'a.creds': No such file or directory"),
    errors.ConnectError("h:1", "tcp", "Connection refused"),
    errors.ConnectTimeoutError("h:1", "info", "no answer in time"),
    errors.SecureConnWantedError("h:1"),
    errors.NoServersError((errors.ConnectError("h:1", "dns", "unknown"),)),
    errors.ServerError("maximum connections exceeded"),
    errors.AuthorizationError("Authorization Violation"),
    errors.PermissionsViolationError("Permissions ...", "publish", "a"),
    errors.StaleConnectionError(),
    errors.SubscriptionFullError("a"),
    errors.ConnectionClosedError("reset"),
    errors.ConnectionReconnectingError("reset"),
    errors.ConnectionDrainingError(),
    errors.ForkedError(),
    errors.ReentrantCallError(),
    errors.DrainTimeoutError(0.5, {"a": 3}),
    errors.RequestTimeoutError("a", 0.5),
    errors.NextMsgTimeoutError("a", 0.5),
    errors.FlushTimeoutError(0.5),
    errors.OutboundBufferLimitError(10, 0.5),
    errors.NoRespondersError("a"),
    errors.MaxPayloadError(11, 10),
    errors.MaxControlLineError(5000, 4096),
    errors.HeadersNotSupportedError(),
    errors.InvalidResponseError("a", "no JSON"),
    errors.MsgNoReplyError("a"),
    errors.MsgNotBoundError("a"),
    errors.BadSubscriptionError("a"),
    errors.MaxMessagesError("a"),
    errors.SyncSubRequiredError("a"),
    errors.SlowConsumerError("a", 3),
    errors.HandlerError("a"),
    errors.HandlerError("a", 7),
    errors.CallbacksSkippedError(4),
]

each = pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)


def test_every_error_is_sampled() -> None:
    classes = {
        value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Error) and not name.startswith("_")
    }
    assert {type(error) for error in SAMPLES} == classes - {
        Error,
        errors.Facts,
        errors.ProtocolError,
    }


def test_every_error_is_public() -> None:
    for error in SAMPLES:
        assert getattr(natsync, type(error).__name__) is type(error)
        assert type(error).__module__ == "natsync"


@each
def test_it_survives_pickling_with_its_facts(error: Error) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        if not isinstance(error, errors.NoServersError):
            assert vars(again) == vars(error)


@each
def test_its_text_is_one_line(error: Error) -> None:
    assert str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("parent", "children"),
    [
        (builtins.TimeoutError, "ConnectTimeout RequestTimeout NextMsgTimeout FlushTimeout"),
        (builtins.ConnectionError, "Connect ConnectionClosed NoServers StaleConnection"),
        (builtins.ValueError, "Option MaxPayload"),
        (errors.ServerError, "Authorization PermissionsViolation"),
    ],
)
def test_builtin_parents(parent: type, children: str) -> None:
    for name in children.split():
        assert issubclass(getattr(errors, f"{name}Error"), parent)
