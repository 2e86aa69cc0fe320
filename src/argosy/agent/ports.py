"""A free TCP port of this host, for ranks to meet at.

Chosen outside the range from which the kernel gives ports to outgoing connections, so that none of those takes it
before its owner listens.
"""

import random
import socket
from pathlib import Path

from argosy.contracts.errors import InfrastructureError

LOWEST, HIGHEST = 10_000, 65_535
TRIES = 200
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(host: str) -> int:
    """Find a port of an address on which nobody listens. Raises InfrastructureError where the address is not ours."""
    low, high = ephemeral_range()
    choices = [port for port in range(LOWEST, HIGHEST) if not low <= port <= high] or list(range(LOWEST, HIGHEST))
    reason = ""
    for port in random.sample(choices, min(TRIES, len(choices))):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            try:
                probe.bind((host, port))
                return port
            except OSError as error:
                reason = error.strerror or str(error)
    raise InfrastructureError(f"no port of {host} can be had: {reason}; `--address` names this host's own address")


def ephemeral_range() -> tuple[int, int]:
    """Read from which ports the kernel serves outgoing connections (Linux; elsewhere its usual range)."""
    try:
        low, high = _RANGE.read_text(encoding="ascii").split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32_768, 60_999
