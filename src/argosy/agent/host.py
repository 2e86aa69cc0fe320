"""What an agent can tell of its host by itself: which boot this is, name, cores, memory, address towards a server."""

import os
import platform
import socket
from pathlib import Path

import msgspec
import psutil

from argosy.agent.http import parse_server
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import HostFacts


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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
