"""`argosy fleet check|show|detect`: whether a fleet file is sound, what it holds, and one of this machine."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from argosy.cli.words import console, counted, figure_text
from argosy.contracts.codec import encode
from argosy.contracts.fleet import ChipClass
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.classes import training_peak
from argosy.fleet.detect import Survey, survey
from argosy.fleet.fleet_file import load_fleet, write_fleet
from argosy.fleet.summary import FleetSummary, SiteSummary, summarize

LARGE_TFLOPS = 1000.0

app = typer.Typer(help="Check, show or detect a fleet.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A fleet.yaml.")]
CatalogueOption = Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON.")]


@app.command()
def check(file: FileArgument, catalogue: CatalogueOption = None, as_json: JsonOption = False) -> None:
    """Say whether a fleet file is sound, and what in it is probably not meant."""
    known = load_catalogue(catalogue)
    fleet = load_fleet(file, known)
    summary = summarize(fleet, known)
    if as_json:
        typer.echo(encode({"fleet": fleet, "warnings": summary.warnings}).decode())
        return
    nodes = sum(site.nodes for site in summary.sites)
    holds = f"{counted(summary.chips, 'chip')} in {counted(nodes, 'node')}, {counted(len(summary.sites), 'site')}"
    typer.echo(f"{file}: sound. {fleet.name}: {holds}")
    for warning in summary.warnings:
        typer.echo(f"warning: {warning}")


@app.command()
def show(file: FileArgument, catalogue: CatalogueOption = None, as_json: JsonOption = False) -> None:
    """Show a fleet: its chip classes, the peak and power of each site, the delay of each long link."""
    known = load_catalogue(catalogue)
    summary = summarize(load_fleet(file, known), known)
    if as_json:
        typer.echo(encode(summary).decode())
        return
    out = console()
    classes = counted(len(summary.classes), "class", "classes")
    out.print(f"{escape(summary.name)}: {counted(summary.chips, 'chip')} in {classes}")
    for table in (_classes_table(summary), _sites_table(summary), _links_table(summary)):
        if table.row_count:
            out.print()
            out.print(table)
    for warning in summary.warnings:
        out.print(f"warning: {escape(warning)}")


@app.command()
def detect(catalogue: CatalogueOption = None, as_json: JsonOption = False) -> None:
    """Write a fleet.yaml of this machine; what can't be asked is noted in comments."""
    found = survey(load_catalogue(catalogue))
    typer.echo(encode(found).decode() if as_json else fleet_text(found), nl=as_json)


def fleet_text(found: Survey) -> str:
    """Write a survey as a fleet.yaml with comments."""
    products = [f"{count} x {product}" for product, count in found.products]
    comments = [f"This machine: {', '.join([found.host, *products])}.", *(f"Note: {note}." for note in found.notes)]
    return "".join(f"# {' '.join(comment.split())}\n" for comment in comments) + write_fleet(found.fleet)


def _classes_table(summary: FleetSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class", overflow="fold")
    for title in ("nodes", "chips", "TFLOPS a chip", "memory GB", "scale-up GB/s", "node network Gb/s"):
        table.add_column(title, justify="right")
    for item in summary.classes:
        table.add_row(*_class_row(item))
    return table


def _class_row(item: ChipClass) -> tuple[str, ...]:
    peak = training_peak(item.chip)
    emulated = " (emulated)" if item.emulated else ""
    return (
        escape(item.name) + emulated,
        f"{item.nodes:,}",
        f"{item.chips:,}",
        f"{_mark(item.emulated)}{figure_text(peak[1])} {peak[0]}" if peak else "-",
        _mark(item.emulated) + figure_text(item.chip.memory_gb),
        figure_text(item.chip.scale_up_gbytes_s),
        figure_text(item.nic_gbps) if item.nic_gbps else "-",
    )


def _mark(emulated: bool) -> str:
    return "~" if emulated else ""


def _sites_table(summary: FleetSummary) -> Table:
    # A machine room is counted in PFLOPS and TB, a desk in TFLOPS and GB.
    large = max((site.peak_tflops or 0.0 for site in summary.sites), default=0.0) >= LARGE_TFLOPS
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site", overflow="fold")
    peak, memory = ("peak PFLOPS", "memory TB") if large else ("peak TFLOPS", "memory GB")
    for title in ("nodes", "chips", peak, memory, "chips' power MW", "cap MW"):
        table.add_column(title, justify="right")
    for site in summary.sites:
        table.add_row(*_site_row(site, 1000 if large else 1))
    return table


def _site_row(site: SiteSummary, scale: int) -> tuple[str, ...]:
    emulated = " (emulated)" if site.emulated else ""
    return (
        escape(site.name) + emulated,
        f"{site.nodes:,}",
        f"{site.chips:,}",
        _mark(site.emulated) + figure_text(site.peak_tflops / scale if site.peak_tflops is not None else None),
        _mark(site.emulated) + figure_text(site.memory_gb / scale if site.memory_gb is not None else None),
        figure_text(site.chips_mw),
        figure_text(site.power_mw),
    )


def _links_table(summary: FleetSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("long link", overflow="fold")
    for title in ("km", "Gb/s", "waves", "one way ms", "round trip ms", "in flight MB"):
        table.add_column(title, justify="right")
    for link in summary.long_links:
        figures = (link.km, link.gbps, link.waves, link.one_way_ms, link.round_trip_ms, link.bdp_mb)
        table.add_row(escape(" - ".join(link.between)), *(figure_text(figure) for figure in figures))
    return table
