"""`Core` is the part of `Client` that the packages above stand on."""

import inspect

from natsync import Client
from natsync.core import Core


def test_a_client_takes_every_argument_that_core_names() -> None:
    calls = {name: call for name, call in vars(Core).items() if not name.startswith("_")}
    assert {"publish", "subscribe", "request", "server_info"} <= set(calls)
    for name, call in calls.items():
        if inspect.isfunction(call):
            named = set(inspect.signature(call).parameters)
            assert named <= set(inspect.signature(getattr(Client, name)).parameters), name
        else:
            assert isinstance(getattr(Client, name), property), name
