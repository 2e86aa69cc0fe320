"""The forms of plan that other frameworks run, so that the planner proposes nothing else for them.

A form keeps the search within reach; the exporter has the last word. Must not know how plans are found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from argosy.contracts.errors import BadInputError
from argosy.model.shape import ModelShape

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a framework with one grid of ranks runs: replicas that are all alike, micro-batches included.

    schedules, zero_stages, recomputes: those it knows. by_stage: stages may recompute different numbers of layers. cp:
    it has context parallelism. ep_in_tp: experts may be cut by TP and spread by EP. tp_by_class: a pipeline's classes
    may have TP degrees of their own. tied_pipelines: a pipeline's ends may share the embedding. vendors: a plan may
    have chips of several vendors. pads_vocabulary: TP needn't divide the vocabulary. copies_keys: TP may be a multiple
    of the heads of keys. torch_rounds: torch deals its zero-bubble (`costs.program`).
    """

    name: str
    schedules: tuple[str, ...]
    zero_stages: tuple[int, ...]
    recomputes: tuple[str, ...]
    by_stage: bool = False
    cp: bool = True
    ep_in_tp: bool = True
    tp_by_class: bool = False
    tied_pipelines: bool = True
    vendors: bool = False
    pads_vocabulary: bool = True
    copies_keys: bool = False
    torch_rounds: bool = False

    def unlike_tps(self, shape: ModelShape) -> bool:
        """Whether classes of a pipeline may have TP degrees of their own: not where its ends share weights."""
        return self.tp_by_class and not shape.tied_embeddings and not shape.mtp_modules

    def deepest(self, shape: ModelShape, most: int) -> int:
        """Give the deepest pipeline of a model, at most so deep."""
        return 1 if shape.tied_embeddings and not self.tied_pipelines else most

    def recompute_choices(self, known: Sequence[str]) -> list[tuple[str, ...]]:
        """Give what the stages of a pipeline may choose from, for each pipeline; known: what the job leaves open."""
        able = tuple(way for way in known if way in self.recomputes)
        return [able] if self.by_stage else [(way,) for way in able]


FORMS = {
    form.name: form
    for form in (
        Form(
            name="megatron",
            schedules=("1f1b", "interleaved"),
            zero_stages=(0, 1, 2, 3),
            recomputes=("none", "selective", "full"),
            copies_keys=True,
        ),
        Form(
            name="torchtitan",
            schedules=("1f1b", "gpipe", "interleaved", "zero-bubble"),
            zero_stages=(0, 1, 2, 3),
            recomputes=("none", "full"),
            ep_in_tp=False,
            tied_pipelines=False,
            pads_vocabulary=False,
            torch_rounds=True,
        ),
        Form(
            name="flagscale",
            schedules=("1f1b",),
            zero_stages=(0, 1),
            recomputes=("none", "full"),
            by_stage=True,
            cp=False,
            tp_by_class=True,
            vendors=True,
        ),
    )
}
"""Framework -> its form, by the names of `plan.exports.formats`."""


def find_form(name: str) -> Form:
    """Find a framework's form; raises BadInputError with the nearest name."""
    return find_named(name, FORMS, f"no framework {name!r} to plan for")


def find_named(name: str, known: Mapping[str, T], refusal: str) -> T:
    """Find what a framework's name stands for; raises BadInputError: the refusal, all names, and the nearest."""
    if name in known:
        return known[name]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise BadInputError(f"{refusal}; there are {', '.join(known)}{hint}")


def even_count(batch: int, sequences: int, most: int) -> int:
    """Give the most replicas, at most so many, over which a batch divides; 0 where none does.

    sequences: what one round of micro-batches of a replica takes.

    >>> even_count(1024, 2, 42), even_count(1024, 3, 42)
    (32, 0)
    """
    rounds, left = divmod(batch, sequences)
    return 0 if left else next((count for count in range(min(most, rounds), 0, -1) if rounds % count == 0), 0)
