"""What this machine has, as a Fleet: accelerators as the vendors' tools name them, CPU cores, memory, network cards.

Asks pynvml or nvidia-smi, rocm-smi, npu-smi and hl-smi, and the kernel's lists of network cards. It never raises:
what it can't ask or doesn't know becomes a note. It must not open a chip, import torch or change anything.
"""

import json
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from argosy.contracts.fleet import Fleet, Nics, NodeGroup, Site
from argosy.fleet.catalogue import Catalogue, load_catalogue, nearest_names

SITE = "here"
TOOL_SECONDS_MAX = 30.0
# Chips that the tools list as two devices each, one a die.
TWO_DIE_CHIPS = ("mi250", "mi250x")

Run = Callable[[Sequence[str]], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found. host: cores and memory in words. products: vendors' names and counts. notes: what is unknown."""

    fleet: Fleet
    host: str
    products: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]


def detect() -> Fleet:
    """Describe this machine as a fleet of one site, `here`, and one node."""
    return survey().fleet


def survey(
    catalogue: Catalogue | None = None,
    run: Run | None = None,
    sys: Path = Path("/sys/class"),
    cpuinfo: Path = Path("/proc/cpuinfo"),
) -> Survey:
    """Look this machine over; in tests the rest stands in for the vendors' tools and the kernel's lists."""
    catalogue = catalogue or load_catalogue()
    products, notes = _accelerators(run)
    groups, unknown = _groups(products, catalogue, _nics(sys))
    notes += unknown
    cores = _cores()
    memory_gb = psutil.virtual_memory().total / 1e9
    if not groups:
        notes.append("no accelerator that the catalogue knows was found: the CPU's cores are listed as chips")
        notes += _cpu_notes(cpuinfo)
        groups = [NodeGroup(site=SITE, chip="cpu", chips_per_node=_cpu_chips(catalogue, cores, memory_gb), count=1)]
    if len(groups) > 1:
        notes.append("this one host has several kinds of chips: they are written as so many nodes")
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", platform.node())[:63] or "this-machine"
    return Survey(
        fleet=Fleet(name=name, sites=(Site(name=SITE),), nodes=tuple(groups)),
        host=f"{cores} CPU cores, {memory_gb:.1f} GB memory",
        products=tuple(products.items()),
        notes=tuple(notes),
    )


def run_tool(command: Sequence[str]) -> str | None:
    """Run a vendor's tool and return what it printed; None if it isn't there, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def _accelerators(run: Run | None) -> tuple[Counter[str], list[str]]:
    """Count accelerators by product name, asking every tool there is."""
    ask = run or run_tool
    products: Counter[str] = Counter(_nvml_names() if run is None else ())
    if not products:
        products.update(_lines(ask(("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"))))
    products.update(rocm_names(ask(("rocm-smi", "--showproductname", "--json"))))
    products.update(npu_names(ask(("npu-smi", "info"))))
    products.update(_lines(ask(("hl-smi", "-Q", "name", "-f", "csv,noheader"))))
    notes = (
        [] if products else ["none of pynvml, nvidia-smi, rocm-smi, npu-smi and hl-smi answered with an accelerator"]
    )
    return products, notes


def _nvml_names() -> list[str]:
    """Ask NVIDIA's library, which is an optional package."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            names = [pynvml.nvmlDeviceGetName(handle) for handle in handles]
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # whatever is wrong with the driver, nvidia-smi is asked next
        return []
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def rocm_names(text: str | None) -> list[str]:
    """Read product names from `rocm-smi --showproductname --json`, one a device."""
    try:
        cards = json.loads(text or "{}")
    except ValueError:
        return []
    if not isinstance(cards, dict):
        return []
    entries = [card for name, card in sorted(cards.items()) if name.startswith("card") and isinstance(card, dict)]
    return [
        str(card.get("Card Series") or card.get("Card series") or card.get("Card Model") or "AMD GPU")
        for card in entries
    ]


def npu_names(text: str | None) -> list[str]:
    """Read chip names from the table of `npu-smi info`: the rows `| 0  910B3 | OK | ...`."""
    return re.findall(
        r"^\|\s*\d+\s+([A-Z0-9-]*[A-Z][A-Z0-9-]*)\s*\|\s*\w+\s*\|", text or "", re.MULTILINE | re.IGNORECASE
    )


def _groups(products: Counter[str], catalogue: Catalogue, nics: Nics | None) -> tuple[list[NodeGroup], list[str]]:
    """Turn products into node groups; a product that the catalogue doesn't know becomes a note."""
    groups, notes = [], []
    for product, count in products.items():
        chip = catalogue.product_names.get(product.lower())
        if chip is None:
            near = nearest_names(product.removeprefix("NVIDIA "), catalogue.names())
            hint = f" (nearest: {', '.join(near)})" if near else ""
            notes.append(
                f'{count} x "{product}" are not in the catalogue{hint}: add them by --catalogue, docs/chips.md says how'
            )
            continue
        chips = -(-count // 2) if chip in TWO_DIE_CHIPS else count
        groups.append(NodeGroup(site=SITE, chip=chip, chips_per_node=chips, count=1, nics=nics))
    return groups, notes


def _cores() -> int:
    try:
        return len(psutil.Process().cpu_affinity() or ()) or 1
    except (AttributeError, psutil.Error):
        return psutil.cpu_count() or 1


def _cpu_chips(catalogue: Catalogue, cores: int, memory_gb: float) -> int:
    """Count cores, but no more than the memory feeds at the catalogue's figure for one."""
    each_gb = catalogue.chip("cpu").memory_gb or memory_gb
    return max(1, min(cores, int(memory_gb // each_gb)))


def _cpu_notes(cpuinfo: Path) -> list[str]:
    """Say where the catalogue's one figure for a core is too low."""
    if not re.search(r"^flags\b.*\bavx512f\b", _read(cpuinfo), re.MULTILINE):
        return []
    return [
        "this CPU has AVX-512 and the catalogue's cpu is half a core with AVX2: one here may do several times that, so "
        "MFU can pass 100 %; give your own figure by --catalogue, docs/chips.md says how"
    ]


def _nics(sys: Path) -> Nics | None:
    """Find the network cards that carry most: InfiniBand or RoCE ports, else Ethernet devices, all of one rate."""
    rates = [rate for rate in (_infiniband_gbps(port) for port in sorted(sys.glob("infiniband/*/ports/*"))) if rate]
    if not rates:
        speeds = (
            _number(_read(device / "speed")) for device in sorted(sys.glob("net/*")) if (device / "device").exists()
        )
        rates = [speed / 1000 for speed in speeds if speed and speed > 0]
    return _commonest(rates)


def _infiniband_gbps(port: Path) -> float | None:
    if "ACTIVE" not in _read(port / "state"):
        return None
    return _number(_read(port / "rate").split(" ")[0])


def _commonest(rates: Iterable[float]) -> Nics | None:
    """Choose the rate that carries most in all."""
    counted = Counter(rates)
    if not counted:
        return None
    gbps, count = max(counted.items(), key=lambda item: (item[0] * item[1], item[0]))
    return Nics(count=count, gbps=gbps)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
