"""A layout: which classes a pipeline goes through, how wide and deep it is on each, and how it is run.

Data, before any layer is cut. Must not know times or bytes.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from argosy.contracts.fleet import ChipClass
from argosy.plan.costs.setting import Shards, Way, shards_of
from argosy.plan.timing.schedules import held_microbatches

# So many rows of what places hold are looked up once.
ROWS_KEPT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """So many places of a pipeline in a row on one class, each of tp x cp x ep chips."""

    chip_class: ChipClass
    places: int
    tp: int = 1


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a template is built from.

    runs: in the order of the pipeline; CP, EP and the micro-batch are the same on all of them, so that what leaves a
    stage is what the next one takes; TP may differ, one degree a multiple of the other. recomputes: ways that stages
    may choose from, what keeps most first; partly: they may choose for each layer. schedule, microbatches and
    virtual_stages: how many micro-batches a place holds follows from them. count: replicas that there will be.
    zero_stage and shards: over how many ranks it shards.
    """

    runs: tuple[Run, ...]
    cp: int = 1
    ep: int = 1
    microbatch_size: int = 1
    recomputes: tuple[str, ...] = ("none",)
    partly: bool = False
    schedule: str = "1f1b"
    virtual_stages: int = 1
    microbatches: int = 1
    count: int = 1
    zero_stage: int = 0
    shards: int = 1

    @cached_property
    def places(self) -> tuple[Run, ...]:
        """The run of each place."""
        return tuple(run for run in self.runs for _ in range(run.places))

    @cached_property
    def run_numbers(self) -> tuple[int, ...]:
        """The run of each place, by its number."""
        return tuple(number for number, run in enumerate(self.runs) for _ in range(run.places))

    @cached_property
    def depth(self) -> int:
        """How many places there are."""
        return sum(run.places for run in self.runs)

    @property
    def stages(self) -> int:
        """How many stages there are, virtual ones counted."""
        return self.depth * self.virtual_stages

    @property
    def sequences(self) -> int:
        """Sequences of one round of micro-batches: one on each EP rank."""
        return self.microbatch_size * self.ep

    @cached_property
    def chips(self) -> dict[str, int]:
        """Chips of one replica by class."""
        used: dict[str, int] = {}
        for run in self.runs:
            used[run.chip_class.name] = used.get(run.chip_class.name, 0) + run.places * self.width(run)
        return used

    @property
    def sites(self) -> frozenset[str]:
        """The sites that the pipeline goes through."""
        return frozenset(run.chip_class.site for run in self.runs)

    @cached_property
    def shape(self) -> tuple[object, ...]:
        """What two layouts of one fleet must share to have the same wires."""
        return (
            tuple((run.chip_class.name, run.places, run.tp) for run in self.runs),
            self.cp,
            self.ep,
            self.virtual_stages,
        )

    @cached_property
    def shares(self) -> Shards:
        """Over how many ranks each thing is cut."""
        return shards_of(self.zero_stage, self.shards)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What two layouts of one fleet must share to have the same stages; counts that no stage sees are left out."""
        runs = tuple((run.chip_class.name, run.places, run.tp) for run in self.runs)
        how = (self.how, self.partly, self.schedule, self.virtual_stages, self.held)
        return runs, how, self.zero_stage, self.shards

    @cached_property
    def how(self) -> tuple[object, ...]:
        """How one micro-batch is laid over each place, but for TP."""
        return self.cp, self.ep, self.microbatch_size, self.recomputes

    @cached_property
    def kinds(self) -> tuple[Run, ...]:
        """Runs that differ in class or TP."""
        return tuple({(run.chip_class.name, run.tp): run for run in self.runs}.values())

    @cached_property
    def kind_names(self) -> tuple[tuple[str, int], ...]:
        """Class and TP of each kind."""
        return tuple((run.chip_class.name, run.tp) for run in self.kinds)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The kind of each place, by its number."""
        each = [self.kind_names.index((run.chip_class.name, run.tp)) for run in self.runs]
        return tuple(each[number] for number in self.run_numbers)

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Micro-batches that each place holds at most, each of one of its stages."""
        return _held(self.schedule, self.depth, self.microbatches, self.virtual_stages)

    def width(self, run: Run) -> int:
        """Chips of one of a run's places."""
        return run.tp * self.cp * self.ep

    def way(self, run: Run, recompute: str | None = None) -> Way:
        """How one micro-batch is laid over a run's places; without recompute, if that is not said."""
        return Way(
            tp=run.tp,
            cp=self.cp,
            ep=self.ep,
            microbatch_size=self.microbatch_size,
            recompute=self.recomputes[0] if recompute is None else recompute,
        )

    def place_of(self, stage: int) -> int:
        """Tell the place that a stage runs on."""
        return stage % self.depth


@lru_cache(maxsize=ROWS_KEPT)
def _held(schedule: str, depth: int, microbatches: int, virtual_stages: int) -> tuple[int, ...]:
    return tuple(held_microbatches(schedule, place, depth, microbatches, virtual_stages) for place in range(depth))
