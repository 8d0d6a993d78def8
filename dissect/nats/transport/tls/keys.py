"""The keys of one direction of TLS: the secret that protects the next record, and the number of this record.

If a hello was not captured, the secrets of the key logs are tried on the first records: the tag of a record
proves which secret is right. TLS 1.3 needs neither hello for this; the keys of TLS 1.2 also depend on the
server's random, so the ServerHello must have been captured (RFC 5246, 6.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from ...secrets.key_log import KeyLogs
from .crypto import SUITES, VERSION_13, Opener, next_secret, opener_12, opener_13
from .handshake import Handshake

_EPOCHS = {
    "EARLY": "EARLY_TRAFFIC_SECRET",
    "HANDSHAKE": "HANDSHAKE_TRAFFIC_SECRET",
    "TRAFFIC": "TRAFFIC_SECRET_0",
}
"""The generations of keys of TLS 1.3 in their order, and the labels of their secrets in a key log."""

# The shortest valid payload of all suites: a content type and the tag of AES-CCM-8, in TLS 1.3. Hostile
# payloads may be shorter.
_SHORTEST_PAYLOAD = 9

# The limits of trials after a gap, where the number of the next record is unknown: numbers that are tried for
# a record, and trials in one direction of a connection.
_SHORTEST_RECORD = 22  # of an encrypted record: head, one byte, tag
_MOST_SEQUENCES = 256
_MOST_TRIALS = 20_000

# The limits of trials where a hello is missing: the first whole records of a direction, the secrets for each
# of them, and the trials for each of them (20 ms), from which the numbers that are tried follow.
_MOST_SEARCHES = 4
_MOST_CANDIDATES = 2_000
_MOST_SEARCH_TRIALS = 8_000
_MOST_HANDSHAKE_RECORDS = 8  # in one direction of TLS 1.3, before its traffic begins

# Suites of TLS 1.3 by the size of their secrets: servers of NATS offer these (Go, crypto/tls).
_SUITES_13 = {32: (0x1301, 0x1303), 48: (0x1302,)}

Opened = tuple[int, bytes]
"""Content type and content of a record."""


class _KeyCandidate(NamedTuple):
    random: bytes
    suite_code: int
    of_client: bool
    epoch: str


class _Openers:
    """The openers of all secrets that key logs have for one connection. The first one that opens a record is
    right: the record's tag proves it."""

    def __init__(self, first: Opener, others: Iterator[Opener]) -> None:
        self._opener, self._others = first, others
        self._tried: list[Opener] = []
        self._is_proven = False

    def open(self, sequence: int, head: bytes, payload: bytes) -> Opened | None:
        opened = self._opener.open(sequence, head, payload)
        if opened is not None or self._is_proven:
            self._is_proven = True
            return opened
        self._tried += self._others
        for opener in self._tried:
            opened = opener.open(sequence, head, payload)
            if opened is not None:
                self._opener, self._is_proven = opener, True
                return opened
        return None


class DirectionKeys:
    """Opens the records of one direction, one after the other. A pickled object contains no secrets."""

    def __init__(self, handshake: Handshake, of_client: bool, key_logs: KeyLogs) -> None:
        self.handshake = handshake
        self.of_client = of_client
        self.epoch = "HANDSHAKE"  # of TLS 1.3
        self.sequence = 0
        self.has_opened = False  # whether any record was opened
        self.has_secrets = True
        self.opener: Opener | None = None
        self._key_logs = key_logs
        # By epoch and number of KeyUpdates: the first record of a later epoch may be tried many times.
        self._openers: dict[tuple[str, int], Opener] = {}
        self._generation = 0  # number of KeyUpdates
        self._trials = 0
        self._searches = 0
        self._tried = 0  # connections in the key logs that the latest search tried
        self._window = 0  # record numbers that the latest search tried

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "opener": None, "_openers": {}}

    def open(self, head: bytes, payload: bytes) -> Opened | None:
        """Opens the next record. The record number advances even if that fails."""
        if self.handshake.offers_early_data and self.of_client and not self.has_opened:
            self.epoch = "EARLY"
        if self.opener and len(payload) < _SHORTEST_PAYLOAD:
            self.sequence += 1
            return None
        opened = self._open(self.sequence, head, payload)
        if opened is None and self.handshake.is_13:
            opened = self._open_later(head, payload)
        self.sequence += 1
        return opened

    def begin(self, epoch: str) -> None:
        """Continues with the first record of an epoch."""
        self.epoch, self.opener, self.sequence = epoch, None, 0

    def update(self) -> None:
        """Continues with the first record after a KeyUpdate."""
        self._generation += 1
        self.begin(self.epoch)

    def resync(self, head: bytes, payload: bytes, lost_bytes: int) -> bool:
        """Tries a record as one of the next ones, after `lost_bytes` that were not read. If it can be opened,
        it becomes the next record. Returns whether it can."""
        if self.handshake.is_13 and self.epoch == "HANDSHAKE":
            self.begin("TRAFFIC")
        window = min(lost_bytes // _SHORTEST_RECORD + 2, _MOST_SEQUENCES)
        if self._finds(head, payload, window):
            return True
        if not self.handshake.is_13:
            return False
        before = self.opener, self.sequence
        self.update()  # the KeyUpdate may be lost, too
        if self._finds(head, payload, window):
            return True
        self._generation -= 1
        self.opener, self.sequence = before
        return False

    def _finds(self, head: bytes, payload: bytes, window: int) -> bool:
        """Whether a record is one of the next `window` records. If so, it becomes the next record."""
        for sequence in range(self.sequence, self.sequence + window):
            self._trials += 1
            if self._trials > _MOST_TRIALS:
                return False
            if self._open(sequence, head, payload):
                self.sequence = sequence
                return True
            if not self.has_secrets:
                return False
        return False

    @property
    def joins(self) -> bool:
        """Whether the number of the next record is unknown, because a record of the other direction has
        proven the handshake."""
        return self.handshake.is_proven and not self.has_opened

    @property
    def may_search(self) -> bool:
        """Whether `search` has not failed too often."""
        return self._searches < _MOST_SEARCHES

    def search(self, head: bytes, payload: bytes) -> bool:
        """Tries the secrets of the key logs on a record, as one of the first, if a hello is missing. If one
        opens it, it becomes the next record, and the handshake is known. Returns whether one does.
        """
        self._searches += 1
        candidates = list(islice(self._candidates(), _MOST_CANDIDATES))
        self._tried = len({candidate.random for candidate in candidates})
        self._window = each = _MOST_SEARCH_TRIALS // max(len(candidates), 1)
        for candidate in candidates:
            opener = self._opener_of(candidate)
            last = _MOST_HANDSHAKE_RECORDS if candidate.epoch == "HANDSHAKE" else each
            for sequence in range(last if opener else 0):
                if opener and opener.open(sequence, head, payload):
                    self._accept(candidate, sequence)
                    return True
        return False

    @property
    def reason(self) -> str:
        """The reason why records without a hello cannot be decrypted."""
        known = self.handshake
        if known.is_proven:
            return f"the handshake is missing, and no record is one of the first {self._window}"
        if known.client_random:
            return "the ServerHello is missing, and the key log has no secrets of TLS 1.3 for this client"
        hello = "ClientHello" if known.server_random else "handshake (TLS 1.2 needs it)"
        if not self._tried:
            return f"the {hello} is missing, and no secret of a key log can replace it"
        tried = f"{self._tried} connection{'s' * (self._tried > 1)} in the key log"
        records = f"one of the first {self._window} records"
        return f"the {hello} is missing, and no secret of {tried} opens {records}"

    def _candidates(self) -> Iterator[_KeyCandidate]:
        known = self.handshake
        sides = (self.of_client,) if known.has_hello else (self.of_client, not self.of_client)
        if known.suite and not known.is_13:
            for random in self._key_logs.randoms("CLIENT_RANDOM"):
                yield _KeyCandidate(random, known.suite_code, self.of_client, "HANDSHAKE")
            return
        for side in sides:
            found = self._key_logs.randoms(self._label("TRAFFIC", side))
            for random in [known.client_random] if known.client_random else found:
                secret = next(self._key_logs.find(random, self._label("TRAFFIC", side)), b"")
                codes = _SUITES_13.get(len(secret), ())
                for code in (known.suite_code,) if known.suite else codes:
                    if known.has_hello or known.is_proven:
                        yield _KeyCandidate(random, code, side, "HANDSHAKE")
                    yield _KeyCandidate(random, code, side, "TRAFFIC")

    def _opener_of(self, candidate: _KeyCandidate) -> Opener | None:
        random, code, of_client, epoch = candidate
        known, suite = self.handshake, SUITES[code]
        if known.suite and not known.is_13:
            both = random, known.server_random
            mac_first = not known.encrypts_then_macs
            return self._opener_with(
                random,
                "CLIENT_RANDOM",
                lambda master: opener_12(suite, master, both, of_client, mac_first),
            )
        return self._opener_with(
            random, self._label(epoch, of_client), lambda secret: opener_13(suite, secret)
        )

    def _opener_with(
        self, random: bytes, label: str, make: Callable[[bytes], Opener]
    ) -> Opener | None:
        """The opener that `make` makes of a secret; None if no key log has one."""
        openers = map(make, self._key_logs.find(random, label))
        first = next(openers, None)
        return None if first is None else _Openers(first, openers)

    def _accept(self, candidate: _KeyCandidate, sequence: int) -> None:
        known = self.handshake
        known.client_random, known.suite_code = candidate.random, candidate.suite_code
        known.version = known.version or VERSION_13
        known.is_proven = True
        self.of_client = candidate.of_client
        self._openers.clear()
        self.begin(candidate.epoch)
        self.sequence = sequence

    def _open(self, sequence: int, head: bytes, payload: bytes) -> Opened | None:
        if self.opener is None:
            self.opener = self._make_opener()
            self.has_secrets = self.opener is not None
        opened = self.opener.open(sequence, head, payload) if self.opener else None
        self.has_opened = self.has_opened or opened is not None
        return opened

    def _open_later(self, head: bytes, payload: bytes) -> Opened | None:
        """Opens the record as the first one of a later epoch or after a KeyUpdate: secrets, the end of this
        epoch or the KeyUpdate may be missing."""
        before = self.epoch, self.opener, self.sequence
        epochs = list(_EPOCHS)
        for epoch in epochs[epochs.index(self.epoch) + 1 :]:
            self.begin(epoch)
            opened = self._open(0, head, payload)
            if opened:
                return opened
        self.update()
        opened = self._open(0, head, payload)
        if opened:
            return opened
        self._generation -= 1
        self.epoch, self.opener, self.sequence = before
        return None

    def _make_opener(self) -> Opener | None:
        known = self.handshake
        suite = known.suite
        if suite is None:
            return None
        if not known.is_13:
            candidate = _KeyCandidate(known.client_random, known.suite_code, self.of_client, "")
            return self._opener_of(candidate)
        generation = self.epoch, self._generation
        if generation not in self._openers:

            def updated(secret: bytes, updates: int = self._generation) -> Opener:
                for _ in range(updates):
                    secret = next_secret(secret, suite)
                return opener_13(suite, secret)

            label = self._label(self.epoch, self.of_client)
            opener = self._opener_with(known.client_random, label, updated)
            if opener is None:
                return None
            self._openers[generation] = opener
        return self._openers[generation]

    def _label(self, epoch: str, of_client: bool) -> str:
        return f"{'CLIENT' if of_client else 'SERVER'}_{_EPOCHS[epoch]}"
