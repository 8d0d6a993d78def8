"""Errors have the codes and texts of nats-server; the conformance tests compare more of them."""

from __future__ import annotations

from natsync.testing.memory.problems import Problem


def test_a_problem_is_an_error_of_the_api() -> None:
    assert Problem(10071, 5).to_json() == {
        "code": 400,
        "err_code": 10071,
        "description": "wrong last sequence: 5",
    }
