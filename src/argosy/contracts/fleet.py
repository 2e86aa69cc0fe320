"""What there is: sites, long links, node groups, chips, and the classes that the planner plans over.

Pure data. Reading `fleet.yaml` and the chip catalogue is the room `fleet`; nothing here knows a file.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of accelerator, by its published figures; what is not known is None or absent, never guessed.

    tflops: peak dense TFLOPS (no sparsity) by dtype name: fp64, fp32, tf32, bf16, fp16, fp8, int8, fp4.
    memory_gb: capacity in 10^9 bytes. memory_gbytes_s: bandwidth of that memory in 10^9 bytes/s.
    scale_up_gbytes_s: what one chip can send to its peers in the node or rack, one direction, 10^9 bytes/s.
    scale_up_chips: how many chips one scale-up domain joins.
    backend: the collective library's torch name (nccl, hccl, ...). torch_device: torch's device type (cuda, npu, ...).
    sources: figure name -> where it was read.
    """

    name: str
    vendor: str
    title: str
    year: int | None = None
    tflops: dict[str, float] = field(default_factory=dict)
    memory_gb: float | None = None
    memory_gbytes_s: float | None = None
    scale_up_gbytes_s: float | None = None
    scale_up_chips: int | None = None
    tdp_w: float | None = None
    price_per_hour: float | None = None
    backend: str = "gloo"
    torch_device: str = "cpu"
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One building. location: latitude and longitude in degrees. power_mw: cap of the whole site."""

    name: str
    power_mw: float | None = None
    location: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLink:
    """What joins two sites; gbps is the sum over its waves, one direction.

    km: length of the fibre. Light needs 5 us per km in it, so the one-way delay is 0.005 ms x km.
    """

    between: tuple[str, str]
    km: float
    gbps: float
    waves: int = 1

    @property
    def one_way_ms(self) -> float:
        """Delay of light in the fibre, one way."""
        return 0.005 * self.km


@dataclass(frozen=True, slots=True, kw_only=True)
class Nics:
    """A node's network cards: `8x400G` is count 8, gbps 400."""

    count: int
    gbps: float

    @property
    def total_gbps(self) -> float:
        """What the node sends, one direction, all cards together."""
        return self.count * self.gbps


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """Chips that are played on the CPU: real arithmetic, paced to modelled times.

    tflops: peak of one emulated chip for every dtype. memory_gb: its memory.
    """

    tflops: float
    memory_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Like nodes of one site. rack, spine: how many nodes share one."""

    site: str
    chip: str
    chips_per_node: int
    count: int
    nics: Nics | None = None
    rack: int | None = None
    spine: int | None = None
    emulate: Emulation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything that is owned, as `fleet.yaml` says it."""

    name: str
    sites: tuple[Site, ...]
    nodes: tuple[NodeGroup, ...]
    long_links: tuple[LongLink, ...] = ()
    version: int = 1

    @property
    def chips(self) -> int:
        """How many chips there are in all."""
        return sum(group.chips_per_node * group.count for group in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipClass:
    """What the planner plans over: (chip kind, site, node shape) with a count, never single chips.

    name: `site/chip`, with `/Nx` added where a site has the same chip in nodes of several shapes.
    chip: its figures, emulation already applied. nic_gbps: one node's network, one direction, all cards.
    """

    name: str
    site: str
    chip: Chip
    chips_per_node: int
    nodes: int
    nic_gbps: float
    emulated: bool = False

    @property
    def chips(self) -> int:
        """How many chips the class has."""
        return self.nodes * self.chips_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One host. name: `site-N`, counted from 1 within the site in the fleet file's order."""

    name: str
    site: str
    chip_class: str
    chips: int
    rack: int | None = None
    spine: int | None = None
