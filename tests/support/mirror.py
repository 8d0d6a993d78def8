"""A tun device with a mirror behind it: real packets of link type raw IP on one machine.

The kernel sends what is meant for FAR into the device. The mirror swaps source and destination and
gives it back, so it arrives from FAR at NEAR, whose answer takes the same way home. Checksums stay
right, for a sum does not care about order.

The mirror can be a bad road as well: it then loses some packets and lets others overtake. What the
client sends is captured before the mirror, so a loss shows as a real retransmission; what the
server sends is captured after it, so a loss shows as a gap that is filled late.
"""

from __future__ import annotations

import fcntl
import os
import random
import selectors
import struct
import subprocess
import threading

NEAR = "10.77.0.1"
FAR = "10.77.0.2"
PORT = 4222
DEVICE = "mirror0"
# What tcpdump on the device must be told, to see the client's side of each connection only.
CLIENT_SIDE = f"(src host {NEAR} and dst port {PORT}) or (src host {FAR} and src port {PORT})"
WITH_PAYLOAD = 100  # bytes: longer than any empty segment

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000


class Mirror:
    """The device and the thread that mirrors, while the context lasts. Needs root.

    `loss` and `overtaking` are the shares of packets with payload that are lost or late.
    """

    def __init__(self, loss: float = 0.0, overtaking: float = 0.0, seed: int = 0) -> None:
        self._loss = loss
        self._overtaking = overtaking
        self._chance = random.Random(seed)
        self._late: bytes | None = None
        self._carried = 0

    def carried(self) -> int:
        """How many packets have passed that CLIENT_SIDE selects."""
        return self._carried

    def __enter__(self) -> Mirror:
        self._tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        request = struct.pack("16sH", DEVICE.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(self._tun, TUNSETIFF, request)
        for command in (
            f"ip link set dev {DEVICE} addrgenmode none",
            f"ip addr add {NEAR}/30 dev {DEVICE}",
            f"ip link set dev {DEVICE} up mtu 1500",
        ):
            subprocess.run(command.split(), check=True)
        self._wake, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, name="mirror")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._stop)
        self._thread.join()
        os.close(self._wake)
        os.close(self._tun)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._tun, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while all(key.fd == self._tun for key, _ in selector.select()):
                self._mirror(os.read(self._tun, 65535))

    def _mirror(self, packet: bytes) -> None:
        (target_port,) = struct.unpack_from("!H", packet, 22)
        self._carried += target_port == PORT
        for sent in self._on_the_road(packet):
            (source_port,) = struct.unpack_from("!H", sent, 20)
            self._carried += source_port == PORT
            os.write(self._tun, sent[:12] + sent[16:20] + sent[12:16] + sent[20:])

    def _on_the_road(self, packet: bytes) -> list[bytes]:
        """The packets that arrive now: usually this one."""
        fate = self._chance.random() if len(packet) > WITH_PAYLOAD else 1.0
        if fate < self._loss:
            return []
        if fate < self._loss + self._overtaking and self._late is None:
            self._late = packet
            return []
        late, self._late = self._late, None
        return [packet] if late is None else [packet, late]
