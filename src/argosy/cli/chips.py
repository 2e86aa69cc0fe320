"""`argosy chips`: the chip catalogue as a table, and one chip with every figure's source."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from argosy.cli.words import console, figure_text
from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Chip
from argosy.fleet.catalogue import load_catalogue, nearest_names


def command(
    name: Annotated[str | None, typer.Argument(help="One chip, shown with the source of every figure.")] = None,
    vendor: Annotated[str | None, typer.Option(help="Only this maker's chips.")] = None,
    catalogue: Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Write the table of docs/chips.md.")] = False,
) -> None:
    """List the chips that the catalogue knows, or show one with its sources.

    TFLOPS are peak and dense, links one direction, prices one cloud's list price for one chip-hour in USD.
    """
    known = load_catalogue(catalogue)
    if as_json and as_markdown:
        raise BadInputError("--json and --markdown: choose one")
    if name is not None:
        if vendor is not None or as_markdown:
            raise BadInputError("--vendor and --markdown are for the list; drop them, or the chip's name")
        _show_chip(known.chip(name), as_json)
        return
    chips = _of_vendor(tuple(known), vendor)
    if as_json:
        typer.echo(encode(chips).decode())
    elif as_markdown:
        typer.echo(chips_markdown(chips), nl=False)
    else:
        console().print(chips_table(chips))


def _show_chip(chip: Chip, as_json: bool) -> None:
    if as_json:
        typer.echo(encode(chip).decode())
        return
    out = console()
    year = f", {chip.year}" if chip.year else ""
    maker = f"{escape(chip.vendor)} {escape(chip.title)}{year}"
    out.print(f"{chip.name}: {maker}; torch device {chip.torch_device}, collectives {chip.backend}")
    out.print(chip_table(chip))
    for number, source in enumerate(sources_of(chip), start=1):
        out.print(f"({number}) {escape(source)}", soft_wrap=True)


def chips_table(chips: tuple[Chip, ...]) -> Table:
    """Lay the chips out, one a line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("chip", no_wrap=True)
    table.add_column("maker", no_wrap=True)
    for title in ("bf16\nTFLOPS", "fp16\nTFLOPS", "memory\nGB", "memory\nGB/s", "scale-up\nGB/s", "TDP\nW", "USD/h"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("torch", no_wrap=True)
    for chip in chips:
        table.add_row(*_row(chip))
    return table


def chips_markdown(chips: tuple[Chip, ...]) -> str:
    """Lay the chips out as a Markdown table."""
    titles = (
        *("chip", "maker", "title", "bf16 TFLOPS", "fp16 TFLOPS", "memory GB", "memory GB/s"),
        *("scale-up GB/s", "chips joined", "TDP W", "USD/h", "torch device", "collectives"),
    )
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for chip in chips:
        name, maker, *figures, price, device = _row(chip)
        figures.insert(5, figure_text(chip.scale_up_chips))
        cells = (f"`{name}`", maker, chip.title, *figures, price, device, chip.backend)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _row(chip: Chip) -> tuple[str, ...]:
    figures = (
        chip.tflops.get("bf16"),
        chip.tflops.get("fp16"),
        chip.memory_gb,
        chip.memory_gbytes_s,
        chip.scale_up_gbytes_s,
        chip.tdp_w,
    )
    return (chip.name, chip.vendor, *(figure_text(figure) for figure in figures), _price(chip), chip.torch_device)


def _price(chip: Chip) -> str:
    price = chip.price_per_hour
    return "-" if price is None else f"{price:.2f}" if price >= 0.1 else f"{price:.3g}"


def chip_table(chip: Chip) -> Table:
    """Lay one chip out, one figure a line, each with the number of its source."""
    numbers = {source: number for number, source in enumerate(sources_of(chip), start=1)}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", no_wrap=True)
    for title in ("value", "source"):
        table.add_column(title, justify="right", no_wrap=True)
    for figure, value in figures_of(chip).items():
        unit = " (USD)" if figure == "price_per_hour" else ""
        table.add_row(figure + unit, f"{value:,.6g}", f"({numbers[chip.sources[figure]]})")
    return table


def sources_of(chip: Chip) -> tuple[str, ...]:
    """List where the chip's figures were read, each once."""
    return tuple(dict.fromkeys(chip.sources[figure] for figure in figures_of(chip)))


def figures_of(chip: Chip) -> dict[str, float]:
    """Name every figure that is known, as `Chip.sources` names it."""
    fields = ("memory_gb", "memory_gbytes_s", "scale_up_gbytes_s", "scale_up_chips", "tdp_w", "price_per_hour")
    figures = {f"tflops.{dtype}": value for dtype, value in chip.tflops.items()}
    return figures | {field: getattr(chip, field) for field in fields if getattr(chip, field) is not None}


def _of_vendor(chips: tuple[Chip, ...], vendor: str | None) -> tuple[Chip, ...]:
    if vendor is None:
        return chips
    makers = tuple(dict.fromkeys(chip.vendor for chip in chips))
    wanted = [maker for maker in makers if maker.lower() == vendor.lower()]
    wanted = wanted or [maker for maker in makers if vendor and vendor.lower() in maker.lower()]
    if not wanted:
        near = nearest_names(vendor, tuple(maker.lower() for maker in makers), at_most=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise BadInputError(f"--vendor {vendor}: no such maker; {hint}makers are {', '.join(makers)}")
    return tuple(chip for chip in chips if chip.vendor in wanted)
