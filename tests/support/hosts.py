"""Hosts on one machine: network namespaces on a bridge, whose cables can be pulled. Needs root and `ip`."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def possible() -> bool:
    """Tell whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"argosy-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        ip("netns", "del", name)
    return made


def ip(*words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Some hosts on a bridge of this one. address: of this host on it."""

    def __init__(self, count: int) -> None:
        self._tag = f"ag{os.getpid() % 100_000}"
        self._net = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self.address = f"{self._net}.1"
        self.names = [f"{self._tag}-{number}" for number in range(count)]
        self._cables = [f"{self._tag}v{number}" for number in range(count)]

    def make(self) -> None:
        """Make bridge, hosts and cables."""
        ip("link", "add", self._tag, "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", self._tag)
        ip("link", "set", self._tag, "up")
        for number, (name, cable) in enumerate(zip(self.names, self._cables, strict=True)):
            ip("netns", "add", name)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", cable, "master", self._tag, "up")
            ip("-n", name, "addr", "add", f"{self._net}.{10 + number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def remove(self) -> None:
        """Remove what `make` made, as far as it is there."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._tag], capture_output=True, check=False)

    def on(self, number: int) -> list[str]:
        """Give what stands before a command that is to run on a host."""
        return ["ip", "netns", "exec", self.names[number]]

    def cut(self, number: int) -> None:
        """Pull a host's cable."""
        ip("link", "set", self._cables[number], "down")

    def mend(self, number: int) -> None:
        """Put a host's cable back."""
        ip("link", "set", self._cables[number], "up")


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """Have some hosts."""
    made = Hosts(count)
    try:
        made.make()
        yield made
    finally:
        made.remove()
