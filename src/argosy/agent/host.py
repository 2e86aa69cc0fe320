"""What an agent can tell of its host by itself: which boot this is, name, cores, memory, addresses and free ports."""

import os
import platform
import random
import socket
from pathlib import Path

import msgspec
import psutil

from argosy.agent.http import parse_server
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import HostFacts

LOWEST, HIGHEST = 10_000, 65_535
TRIES = 200
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def host_facts(facts: HostFacts | None = None, *, server: str, address: str = "") -> HostFacts:
    """Fill in what the host itself tells. facts: what others found out, such as its chips."""
    known = facts or HostFacts(hostname="", boot_id="")
    return msgspec.structs.replace(
        known,
        hostname=known.hostname or platform.node() or "host",
        boot_id=boot_id(),
        address=address or known.address or own_address(server),
        cores=known.cores or _cores(),
        memory_gb=known.memory_gb or psutil.virtual_memory().total / 1e9,
        python=platform.python_version(),
    )


def boot_id() -> str:
    """Name this boot of the kernel, or this container's life: with another one no former process is left."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Field 22: when process 1 began. Its name, in parentheses, may hold spaces.
        started = Path("/proc/1/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return f"{psutil.boot_time():.0f}"
    return f"{kernel}:{started}"


def own_address(server: str) -> str:
    """Find the address that this host has towards a server; nothing is sent. Raises InfrastructureError."""
    _, host, port = parse_server(server)
    try:
        kind, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise InfrastructureError(f"no way to {server}: {error.strerror or error}") from error


def interface_of(address: str) -> str:
    """Name the network interface that has an address; empty where none has."""
    return next((name for name, found in psutil.net_if_addrs().items() for one in found if one.address == address), "")


def gloo_environment(address: str) -> dict[str, str]:
    """Have gloo use the interface of this address.

    Left to itself it takes the address that the host's own name stands for, which often is 127.0.0.1 or 127.0.1.1.
    """
    name = interface_of(address)
    return {"GLOO_SOCKET_IFNAME": name} if name else {}


def free_port(host: str) -> int:
    """Find a port of an address on which nobody listens. Raises InfrastructureError where the address is not ours.

    It lies outside the range from which the kernel serves outgoing connections, so that none of those takes it before
    its owner listens.
    """
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
