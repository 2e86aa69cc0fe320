"""The stages that a template's plan has: times, memory and shares of each, in the plan's words.

Must not know wires or exchanges.
"""

from collections.abc import Mapping
from dataclasses import replace

from argosy.contracts.plan import EMBEDDING, Plan, Stage
from argosy.plan.costs.cost import update_ms
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import unit_times, worked
from argosy.plan.pipelines.places import place_gb
from argosy.plan.pipelines.templates import Template


def stages_of(setting: Setting, template: Template) -> tuple[Stage, ...]:
    """Make a template's stages, with times, shares and memory; each is made once."""
    layout, cut = template.layout, template.cut
    return worked(setting, ("stages", layout.key, cut), lambda: _stages(setting, template))


def _stages(setting: Setting, template: Template) -> tuple[Stage, ...]:
    layout, cut = template.layout, template.cut
    memory_gb = place_gb(setting, layout, cut)
    stages = []
    for stage, (start, end) in enumerate(zip(cut.starts, cut.ends, strict=True)):
        run = layout.places[layout.place_of(stage)]
        recompute = layout.recomputes[cut.ways[stage]] if cut.counts[stage] else layout.recomputes[0]
        count = cut.counts[stage]
        backward_ms = template.backward_ms[stage]
        stages.append(
            Stage(
                first_layer=start,
                end_layer=end,
                chip_class=run.chip_class.name,
                forward_ms=template.forward_ms[stage],
                backward_ms=backward_ms,
                backward_shares=shares(setting, template, stage),
                weight_share=min(1.0, template.weight_ms[stage] / backward_ms),
                tp=run.tp,
                cp=layout.cp,
                ep=layout.ep,
                recompute=recompute,
                recompute_layers=count if 0 < count < end - start else None,
                memory_gb=memory_gb[layout.place_of(stage)],
                memory_limit_gb=run.chip_class.chip.memory_gb or 0.0,
            )
        )
    return tuple(stages)


def shares(setting: Setting, template: Template, stage: int) -> tuple[float, ...]:
    """Give the part of a stage's backward that each of its units takes, ascending."""
    layout, cut = template.layout, template.cut
    run = layout.places[layout.place_of(stage)]
    plain, again = layout.way(run), layout.way(run, layout.recomputes[cut.ways[stage]])
    middle = cut.starts[stage] + cut.counts[stage]
    layers = range(cut.starts[stage], cut.ends[stage])
    units = [(setting.kind(layer), again if layer < middle else plain) for layer in layers]
    units = [(EMBEDDING, plain)] * (stage == 0) + units
    units += [(setting.shape.num_layers, plain)] * (stage == layout.stages - 1)
    passed = layout.shares.passed
    times = [unit_times(setting, run.chip_class, unit, way, passed).backward_ms for unit, way in units]
    return tuple(time / sum(times) for time in times)


def updated_stages(setting: Setting, plan: Plan, template: Template, shards: int) -> tuple[Stage, ...]:
    """Give a template's stages with the time of the optimizer's step, sharded over so many ranks."""

    def work() -> tuple[Stage, ...]:
        stages = enumerate(stages_of(setting, template))
        return tuple(replace(s, update_ms=stage_update_ms(setting, plan, template, i, shards)) for i, s in stages)

    return worked(setting, ("updated", template.layout.key, template.cut, shards), work)


def holding_stages(setting: Setting, plan: Plan, template: Template) -> Mapping[int, tuple[int, ...]]:
    """List for each unit the stages of a template that hold it."""

    def work() -> Mapping[int, tuple[int, ...]]:
        stages: dict[int, tuple[int, ...]] = {}
        for index, stage in enumerate(stages_of(setting, template)):
            for unit in plan.held_units(stage):
                stages[unit] = (*stages.get(unit, ()), index)
        return stages

    return worked(setting, ("holding", template.cut.ends), work)


def stage_update_ms(setting: Setting, plan: Plan, template: Template, stage: int, shards: int) -> float:
    """Time the optimizer's step of a stage, worked out once."""
    layout, cut = template.layout, template.cut
    run = layout.places[layout.place_of(stage)]
    bounds = cut.starts[stage], cut.ends[stage]

    def work() -> float:
        held = plan.held_units(stages_of(setting, template)[stage])
        kinds = tuple(setting.kind(unit) for unit in held)
        return update_ms(setting, run.chip_class, kinds, layout.way(run), shards)

    return worked(setting, ("update", run.chip_class.name, bounds, run.tp, layout.ep, shards), work)
