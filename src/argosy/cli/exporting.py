"""The plan that `--plan` chooses as files: its step as pictures, and what `--export` asks for.

Reads the wishes and lays out what the room `plan` writes; it must not plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.cli.choosing import chosen_first
from argosy.cli.files import check_file, write_text
from argosy.cli.inputs import Inputs
from argosy.cli.plan_files import write_step
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.formats import find_exporter, runs_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One `--export FORMAT=FILE`; without a file it is for standard output."""

    format: str
    file: Path | None


def read_wishes(texts: Sequence[str], *, alone: bool) -> tuple[Wish, ...]:
    """Read what `--export` was given, before anything is planned; alone: nothing else goes to standard output."""
    wishes = tuple(_wish(text) for text in texts)
    loud = [wish.format for wish in wishes if wish.file is None]
    if len(loud) > 1 or (loud and not alone):
        raise BadInputError(
            f"--export {loud[-1]} would mix with other output; name a file, such as --export {loud[-1]}=plan.txt"
        )
    return wishes


def _wish(text: str) -> Wish:
    name, given, file = text.partition("=")
    find_exporter(name)
    if given and not file:
        raise BadInputError(f"--export {text}: names no file; write {name}=FILE, or {name} for standard output")
    if file:
        check_file(Path(file), f"--export {name}")
    return Wish(format=name, file=Path(file) if file else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Plans and the number of the one that is written, counted from 1. framework: what `--for` asked for, if any."""

    plans: Sequence[Plan]
    number: int = 1
    framework: str | None = None

    @property
    def plan(self) -> Plan:
        """The plan of that number. Raises BadInputError when there is none."""
        return chosen_first(tuple(self.plans), self.number)[0]


def write_plan(
    chosen: Chosen,
    *,
    inputs: Inputs,
    shape: ModelShape,
    trace: Path | None,
    timeline: Path | None,
    wishes: Sequence[Wish],
) -> str | None:
    """Write the chosen plan; gives the text for standard output, None where all went to files.

    A plan that a framework can't express is refused, with the numbers of those that it can.
    """
    plan = chosen.plan
    write_step(plan, trace, timeline)
    vendors = {chip_class.name: chip_class.chip.vendor for chip_class in inputs.classes}
    shown = None
    for wish in wishes:
        export = find_exporter(wish.format)
        try:
            text = export(plan, shape, vendors)
        except BadInputError as error:
            raise BadInputError(f"{error}{_others(wish.format, chosen, shape, vendors)}") from error
        if wish.file is None:
            shown = text
        else:
            write_text(wish.file, text)
    return shown


def _others(name: str, chosen: Chosen, shape: ModelShape, vendors: dict[str, str]) -> str:
    """Say which of the plans could be exported; nothing for a model that the framework runs by no plan."""
    if not runs_model(name, shape, chosen.plan.sequence_length):
        return ""
    export = find_exporter(name)
    able = []
    for number, plan in enumerate(chosen.plans, start=1):
        try:
            export(plan, shape, vendors)
        except BadInputError:
            continue
        able.append(f"--plan {number}")
    which = ", ".join(able) if able else "none of the plans listed"
    more = "" if chosen.framework == name else f"; `--for {name}` plans only what it can"
    return f"\nIt can express {which}{more}"
