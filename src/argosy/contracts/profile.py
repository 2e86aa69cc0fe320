"""A measured profile: how long the trainer's layers take on a chip and what they keep, as `argosy profile` writes it.

Pure data between whoever measures and whoever plans; measuring is the room `train`, reading with care `plan`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """One unit laid out one way: one micro-batch, exchanges inside the stage included.

    unit: what it is, in the words of `model.describe`. weight_ms: part of backward that makes weights' gradients; None
    where it was not measured apart. update_ms: the optimizer's step of the unit. activation_bytes: what a micro-batch
    keeps from forward to backward; None where it was not measured.
    """

    unit: str
    forward_ms: float
    backward_ms: float
    update_ms: float
    weight_ms: float | None = None
    activation_bytes: int | None = None
    tp: int = 1
    cp: int = 1
    ep: int = 1
    microbatch_size: int = 1
    recompute: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTable:
    """What was measured on one chip in one precision at one sequence length.

    chip: its name in the catalogue. device: what ran, in its own words. copies: how many ran at once, each timed.
    """

    chip: str
    precision: str
    sequence_length: int
    entries: tuple[ProfileEntry, ...]
    device: str = ""
    copies: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile file: tables of one or more chips."""

    tables: tuple[ProfileTable, ...]
    kind: str = "argosy-profile"
    version: int = 1
