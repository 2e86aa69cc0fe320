"""The figures and tables of a report: headline figures, traffic of every wire, the plan in words and by stages.

Chooses what is told; figures come from `cli.summary` and the plan.
"""

from collections.abc import Mapping, Sequence

from argosy.cli import report_page as page
from argosy.cli.ended import Ended
from argosy.cli.report_wires import wire_uses
from argosy.cli.summary import percent
from argosy.plan.telling.explain import bytes_text, rate_text, size_text, summary_lines, time_text
from argosy.plan.timing.timeline import simulate
from argosy.plan.timing.trace import stage_label

STAGES_MAX = 64


def headline_figures(ended: Ended) -> list[tuple[str, str]]:
    """Choose the figures that a reader wants first."""
    measured = ended.measured
    if measured is None:
        return []
    mark = "~" if measured.emulated else ""
    told = ended.choice.plan.prediction
    step = f"a step; {ended.told_by} {mark}{time_text(told.step_ms)}" if told else "a step"
    items = [
        (mark + time_text(measured.step_ms), step),
        (mark + rate_text(measured.tokens_per_second), "tokens/s"),
        *([(mark + percent(measured.mfu), measured.mfu_name)] if measured.mfu is not None else []),
        (f"{measured.loss_first:.2f} to {measured.loss_last:.2f}", "loss, first to last step"),
    ]
    return items + [(line.measured, line.what) for line in ended.lines if line.what in ended.headlines]


def traffic(ended: Ended) -> str:
    """List what every wire carries in a step."""
    plan = ended.choice.plan
    mark = "~" if plan.emulated else ""
    rows = [
        (
            use.wire.name + (" (long link)" if use.wire.long_link else ""),
            f"{use.wire.gbps:,.4g}",
            f"{use.wire.one_way_ms:,.3g}",
            bytes_text(use.gradient_bytes) if use.gradient_bytes else "-",
            bytes_text(use.activation_bytes) if use.activation_bytes else "-",
            "-" if use.busy is None else mark + percent(use.busy),
            "-" if use.hidden is None else mark + percent(use.hidden),
        )
        for use in wire_uses(plan)
    ]
    titles = ("wire", "Gb/s", "one way ms", "gradients", "activations", "busy with gradients", "hidden behind backward")
    return page.table(titles, rows)


def plan_lines(ended: Ended) -> list[str]:
    """Say the plan in words."""
    if any(plan.prediction is None for plan in ended.choice.plans):
        return ["a plan from a file, without a prediction"]
    return summary_lines(ended.choice.plans, ended.inputs.job.objective.goal)


def stages(ended: Ended) -> str:
    """List every stage with its times, memory and how busy it is."""
    plan = ended.choice.plan
    busy = simulate(plan, detail=False).busy
    mark = "~" if plan.emulated else ""
    nodes = {place.rank: place.node for place in plan.placement}
    rows = [
        (
            stage_label(plan, r, s),
            ranks_text(stage.ranks, nodes),
            str(replica.microbatches),
            mark + time_text(stage.forward_ms),
            mark + time_text(stage.backward_ms),
            f"{size_text(stage.memory_gb)} of {size_text(stage.memory_limit_gb)} GB",
            page.share_cell(busy[r][s % len(busy[r])]),
        )
        for r, replica in enumerate(plan.replicas)
        for s, stage in enumerate(replica.stages)
    ]
    titles = ("stage", "ranks", "micro-batches", "forward", "backward", "memory, predicted", "busy, predicted")
    return page.table(titles, rows[:STAGES_MAX], left=2)


def ranks_text(ranks: Sequence[int], nodes: Mapping[int, str]) -> str:
    """Say which ranks a stage has and on which node; they share one."""
    numbers = f"{ranks[0]}" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
    return f"{numbers} on {nodes.get(ranks[0], 'no node')}"
