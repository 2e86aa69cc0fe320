"""A plan as one regular grid of ranks, which is all that most frameworks know, or the reason why it is none.

Knows plans, not the words of any framework.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import TRAINER_PROGRAM, Plan, Replica, Stage
from argosy.model.cutting import uncut
from argosy.model.shape import ModelShape
from argosy.plan.timing.check import check_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A plan whose replicas all run the same split of the model.

    tool: the framework's name in errors. stages: of one replica, virtual ones included, in the order of the layers.
    classes: for each place of the pipeline, the chip classes that it has in any replica, in the replicas' order.
    """

    tool: str
    plan: Plan
    shape: ModelShape
    stages: tuple[Stage, ...]
    replicas: int
    microbatches: int
    microbatch_size: int
    classes: tuple[tuple[str, ...], ...]

    @property
    def places(self) -> int:
        """How many ranks deep the pipeline is."""
        return len(self.stages) // self.plan.virtual_stages

    @property
    def layer_counts(self) -> tuple[int, ...]:
        """Layers of each stage."""
        return tuple(stage.end_layer - stage.first_layer for stage in self.stages)

    @property
    def ep(self) -> int:
        """Ranks that share a layer's experts."""
        return self.stages[0].ep

    @property
    def dp(self) -> int:
        """Ranks that take micro-batches of their own: those of all replicas, and of EP within each."""
        return self.replicas * self.ep

    def recomputed(self, way: str) -> tuple[int, ...]:
        """Count for each stage the layers that recompute in a way: full or selective."""
        pairs = zip(self.stages, self.layer_counts, strict=True)
        return tuple(_recomputed(stage, layers) if stage.recompute == way else 0 for stage, layers in pairs)

    def one_tp(self) -> tuple[int, int]:
        """Give the TP and CP degrees that all stages share; refuse where they differ."""
        degrees = sorted({(stage.tp, stage.cp) for stage in self.stages})
        if len(degrees) > 1:
            shown = " and ".join(f"TP {tp}" + (f" CP {cp}" if cp > 1 else "") for tp, cp in degrees)
            raise self.refused(f"stages have {shown}", "one TP and one CP degree for all stages")
        return degrees[0]

    def check_cut(self, tp: int, *, pads_vocabulary: bool, copies_keys: bool) -> None:
        """Refuse a TP degree that the framework can't cut the model by, naming the sizes (`model.cutting.uncut`)."""
        sizes = uncut(self.shape, tp, pads_vocabulary=pads_vocabulary, copies_keys=copies_keys)
        if sizes:
            told = ", ".join(f"{name} {size}" for name, size in sizes.items())
            allowed = [n for n in range(1, tp) if not uncut(self.shape, n)]
            raise self.refused(f"TP {tp} on {told}", f"degrees that divide them, here {', '.join(map(str, allowed))}")

    def refused(self, what: str, allowed: str) -> BadInputError:
        """Make the error that says what of the plan stands in the way, and what the framework can say."""
        return BadInputError(f"{self.tool} can't express this plan: {what}; it takes {allowed}")


def grid_of(plan: Plan, shape: ModelShape, tool: str) -> Grid:
    """See a plan as a grid; raises BadInputError where its replicas differ or it is not of this model."""
    check_plan(plan)
    if (plan.num_layers, plan.tied_embeddings) != (shape.num_layers, shape.tied_embeddings):
        raise BadInputError(
            f"the plan is for {plan.num_layers} layers, embeddings {_tied(plan.tied_embeddings)}; {shape.name} has "
            f"{shape.num_layers}, {_tied(shape.tied_embeddings)}; plan it again"
        )
    first = plan.replicas[0]
    grid = Grid(
        tool=tool,
        plan=plan,
        shape=shape,
        stages=first.stages,
        replicas=len(plan.replicas),
        microbatches=first.microbatches,
        microbatch_size=first.microbatch_size,
        classes=_classes(plan),
    )
    for number, replica in enumerate(plan.replicas, start=1):
        if replica == first:
            continue
        for (what, here), (_, there) in zip(_split(first), _split(replica), strict=True):
            if here != there:
                found = f"replica 1{_on(first)} has {what} {here}, replica {number}{_on(replica)} has {there}"
                raise grid.refused(found, f"the same {what} in every replica{_even_batches(grid, what)}")
    return grid


def headed(plan: Plan) -> str:
    """Name the model and the ranks, for a comment of one line: what could end it is replaced.

    Models may be called by their path, so by anything that a file's name may have in it.
    """
    model = "".join(sign if sign.isprintable() and sign not in '"\\' else "?" for sign in plan.model)
    return f"{model} on {ranks_text(plan)}"


def ranks_text(plan: Plan) -> str:
    """Count the ranks of a plan."""
    return f"{plan.world_size} rank{'' if plan.world_size == 1 else 's'}"


def vendors_of(grid: Grid, vendors: Mapping[str, str]) -> list[str]:
    """List the vendors of a plan's chips, in alphabetical order. vendors: class -> vendor; others aren't looked at."""
    return sorted({vendors[name] for names in grid.classes for name in names if name in vendors})


def check_vendors(grid: Grid, vendors: Mapping[str, str]) -> None:
    """Refuse chips of several vendors, whose ranks no one communication library joins.

    vendors: class -> the vendor of its chips, where known.
    """
    found = vendors_of(grid, vendors)
    if len(found) > 1:
        raise grid.refused(f"chips of {' and '.join(found)}", "one communication library for all ranks")


def expectation(plan: Plan) -> list[str]:
    """Say what the plan expects, and by which program it is timed; nothing where nothing was predicted."""
    predicted = plan.prediction
    if predicted is None:
        return []
    mark, chips = ("~", ", on emulated chips") if plan.emulated else ("", "")
    step_s, rate = predicted.step_ms / 1e3, predicted.tokens_per_second
    program = "Argosy's own trainer" if plan.program == TRAINER_PROGRAM else plan.program
    return [f"Expected, as {program} trains: {mark}{step_s:.4g} s a step, {mark}{rate:,.0f} tokens/s{chips}."]


def class_notes(grid: Grid) -> list[str]:
    """Say which ranks must be on which chips, where that isn't all the same: `ranks 0-7: north/fast`.

    Ranks are numbered as Megatron-LM and torchtitan number them: by place, then replica, then EP, CP and TP.
    """
    if len({name for names in grid.classes for name in names}) == 1:
        return []
    width = grid.stages[0].width
    wanted = [name for names in grid.classes for name in names for _ in range(width)]
    starts = [rank for rank, name in enumerate(wanted) if not rank or name != wanted[rank - 1]]
    ends = [*starts[1:], len(wanted)]
    return [f"ranks {start}-{end - 1}: {wanted[start]}" for start, end in zip(starts, ends, strict=True)]


def _classes(plan: Plan) -> tuple[tuple[str, ...], ...]:
    places = [plan.places(replica) for replica in plan.replicas]
    depth = min(len(stages) for stages in places)
    return tuple(tuple(stages[place].chip_class for stages in places) for place in range(depth))


def _split(replica: Replica) -> tuple[tuple[str, str], ...]:
    """Describe what must be alike in replicas."""
    stages = replica.stages
    layers = [stage.end_layer - stage.first_layer for stage in stages]
    return (
        ("layers", "+".join(map(str, layers))),
        ("TP", _each(stage.tp for stage in stages)),
        ("CP", _each(stage.cp for stage in stages)),
        ("EP", _each(stage.ep for stage in stages)),
        ("recompute", _each(_recompute(*pair) for pair in zip(stages, layers, strict=True))),
        ("micro-batches", str(replica.microbatches)),
        ("micro-batches of size", str(replica.microbatch_size)),
    )


def _even_batches(grid: Grid, what: str) -> str:
    """Name the batches that would give replicas on like chips as many micro-batches each, where that is all."""
    whole = grid.dp * grid.microbatch_size
    below, left = divmod(grid.plan.global_batch_size, whole)
    if what != "micro-batches" or not left or any(len(set(names)) > 1 for names in grid.classes):
        return ""
    near = [f"{times * whole:,}" for times in (below, below + 1) if times]
    return f"; a global batch of {' or '.join(near)} divides over them"


def _on(replica: Replica) -> str:
    return f" ({', '.join(dict.fromkeys(stage.chip_class for stage in replica.stages))})"


def _each(values: Iterable[object]) -> str:
    """Write a value for each stage, once where all are equal."""
    shown = [str(value) for value in values]
    return shown[0] if len(set(shown)) == 1 else "+".join(shown)


def _recomputed(stage: Stage, layers: int) -> int:
    return layers if stage.recompute_layers is None else min(stage.recompute_layers, layers)


def _recompute(stage: Stage, layers: int) -> str:
    count = _recomputed(stage, layers)
    return "none" if stage.recompute == "none" or not count else f"{stage.recompute} of {count}"


def _tied(tied: bool) -> str:
    return "tied" if tied else "apart from the head"
