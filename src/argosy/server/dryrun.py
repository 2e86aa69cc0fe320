"""What would become of a job if it were handed in now: its options from the planner, and one pass on a copy.

Asks the planner and the loop; nothing is kept. Must not know HTTP.
"""

import asyncio
from collections.abc import Callable

from argosy.contracts.event import JobSubmitted
from argosy.contracts.option import Option, Size
from argosy.server.heart import Heart
from argosy.server.intake import Handed
from argosy.server.loop import wall_us
from argosy.server.models import DryRun, OfferView, Submission
from argosy.server.planning import Ask, options_of
from argosy.server.trying import snapshot_of, try_out

OFFERS_SHOWN = 20


class Tryout:
    """Tries jobs out. read: reads and checks a submission."""

    def __init__(self, heart: Heart, read: Callable[[Submission, str], tuple[Handed, str]]) -> None:
        self._heart, self._read = heart, read

    async def run(self, submission: Submission, owner: str) -> DryRun:
        """Say what would become of a job. Raises BadInputError, InfrastructureError."""
        handed, config = await asyncio.to_thread(self._read, submission, owner)
        ask = Ask(job_id="", job=handed.job, config=config, ground=self._heart.now())
        options, text = await options_of(self._heart.planning, ask)
        if text:
            return DryRun(name=handed.claim.name, queue=handed.claim.queue, offers=[], state="refused", text=text)
        data = await asyncio.wrap_future(self._heart.loop.ask(snapshot_of))
        submitted = JobSubmitted(claim=handed.claim, options=options)
        found = await asyncio.to_thread(try_out, data, submitted, wall_us())
        chips = {each.name: each.chips_per_node for each in ask.ground.classes}
        offers = [_offer(option, size, chips) for option in options for size in option.ladder]
        return found.model_copy(update={"offers": offers[:OFFERS_SHOWN]})


def _offer(option: Option, size: Size, chips: dict[str, int]) -> OfferView:
    """Show one size of an option. chips: of a node, by class."""
    nodes: dict[str, int] = {}
    for part in size.parts:
        nodes[part.chip_class] = nodes.get(part.chip_class, 0) + part.nodes
    return OfferView(
        option=option.name,
        nodes=nodes,
        chips=sum(count * chips.get(name, 0) for name, count in nodes.items()),
        tokens_per_second=size.tokens_per_second or None,
        efficiency=size.efficiency,
        cost_per_trillion_tokens=size.cost_per_trillion_tokens,
        emulated=size.emulated,
    )
