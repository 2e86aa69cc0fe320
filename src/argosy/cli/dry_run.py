"""What `argosy submit --dry-run` shows: options with their prices, and what would become of the job."""

import typer

from argosy.cli.remote import counts_text, moment, print_table, say
from argosy.cli.words import figure_text
from argosy.server.models import DryRun, OfferView

SHOWN = 8


def show_dry_run(found: DryRun) -> None:
    """Print what would become of a job; why it would be refused, the error tells that follows."""
    shown = found.offers[:SHOWN]
    if shown:
        columns = {
            "option": [offer.option for offer in shown],
            "nodes": [counts_text(offer.nodes) for offer in shown],
            "chips": [f"{offer.chips:,}" for offer in shown],
            "tokens/s": [marked(offer, offer.tokens_per_second) for offer in shown],
            "$ per 1T tokens": [marked(offer, offer.cost_per_trillion_tokens) for offer in shown],
        }
        if all(offer.tokens_per_second is None for offer in shown):
            columns = {title: columns[title] for title in ("option", "nodes", "chips")}
        print_table(columns, ("option", "nodes"), ("nodes",))
        typer.echo("")
    if found.nodes:
        say("it would", f"start now on {', '.join(found.nodes)}")
    elif found.state == "refused":
        say("it would", "be refused")
    else:
        say("it would", f"wait: {found.why}")
    if found.text and found.state != "refused":
        say("", found.text)
    if found.start_p50_us is not None:
        say("starts", f"at about {moment(found.start_p50_us)} (p90 {moment(found.start_p90_us)})")
    elif found.start_text:
        say("starts", f"nobody can tell when: {found.start_text}")
    if found.preempts:
        say("stopping", ", ".join(found.preempts))


def marked(offer: OfferView, value: float | None) -> str:
    """Write a figure of an option; one of emulated chips is marked."""
    return ("~" if offer.emulated and value is not None else "") + figure_text(value)
