"""`Problem`: an error that the JetStream API answers with, under the code that nats-server has for it."""

from __future__ import annotations

__all__ = ["Problem"]

_TEXTS = {
    10003: (400, "bad request"),
    10012: (500, "{}"),
    10013: (400, "consumer name already in use"),
    10014: (404, "consumer not found"),
    10025: (400, "invalid JSON: {}"),
    10037: (404, "no message found"),
    10043: (400, "sequence {} not found"),
    10052: (500, "{}"),
    10054: (400, "message size exceeds maximum allowed"),
    10056: (400, "stream name in subject does not match request"),
    10058: (400, "stream name already in use with a different configuration"),
    10059: (404, "stream not found"),
    10060: (400, "expected stream does not match"),
    10065: (400, "subjects overlap with an existing stream"),
    10070: (400, "wrong last msg ID: {}"),
    10071: (400, "wrong last sequence: {}"),
    10074: (500, "replicas > 1 not supported in non-clustered mode"),
    10077: (503, "{}"),
    10084: (400, "consumer in pull mode requires explicit ack policy on workqueue stream"),
    10094: (400, "{}"),
    10099: (400, "multiple non-filtered consumers not allowed on workqueue stream"),
    10100: (400, "filtered consumer not unique on workqueue stream"),
    10101: (400, "consumer must be deliver all on workqueue stream"),
    10109: (400, "invalid operation on sealed stream"),
    10110: (500, "{}"),
    10111: (500, "{}"),
    10136: (400, "consumer cannot have both FilterSubject and FilterSubjects specified"),
    10138: (400, "consumer subject filters cannot overlap"),
    10148: (400, "consumer already exists"),
    10149: (400, "consumer does not exist"),
    10165: (400, "invalid per-message TTL"),
    10166: (400, "per-message TTL is disabled"),
}


class Problem(Exception):
    """An error with its `err_code`."""

    def __init__(self, err_code: int, detail: object = "") -> None:
        self.err_code = err_code
        self.code, text = _TEXTS[err_code]
        super().__init__(text.format(detail))

    def to_json(self) -> dict[str, object]:
        """Returns the `error` of an answer."""
        return {"code": self.code, "err_code": self.err_code, "description": str(self)}
