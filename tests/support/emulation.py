"""Builders for tests of the emulated clock: a plan with times on it, and a run that reads the virtual clock."""

from dataclasses import replace
from pathlib import Path

from argosy.comm.clock import board_bytes
from argosy.contracts.messages import StepDone
from argosy.contracts.plan import Exchange, Plan, Replica, Send, Wire
from support.training import config, job, plan, run_plan, shape_of, tokens

LAYERS = 8


def timed(the_plan: Plan, *, layer_ms: float, exchange_bytes: float = 1e5) -> Plan:
    """Put times on a plan: layer_ms a layer forward on the first replica, half as much again on each next one."""
    replicas = tuple(_timed_replica(the_plan, r, each, layer_ms) for r, each in enumerate(the_plan.replicas))
    the_plan = replace(the_plan, replicas=replicas, emulated=True, barrier_ms=0.5)
    wires = (Wire(name="node", gbps=10, one_way_ms=0.01), Wire(name="long", gbps=0.2, one_way_ms=0.25, shared=True))
    exchanges = []
    for unit in range(-1, the_plan.num_layers + 1):
        members = tuple(
            (r, s)
            for r, each in enumerate(replicas)
            for s, stage in enumerate(each.stages)
            if unit in the_plan.held_units(stage)
        )
        gather_bytes = exchange_bytes if the_plan.zero_stage else 0.0
        if len(members) > 1:
            exchanges.append(
                Exchange(unit=unit, members=members, wire="long", wire_bytes=exchange_bytes, gather_bytes=gather_bytes)
            )
    return replace(the_plan, wires=wires, exchanges=tuple(exchanges))


def _timed_replica(the_plan: Plan, index: int, replica: Replica, layer_ms: float) -> Replica:
    stages = []
    for stage in replica.stages:
        units = the_plan.units(stage)
        forward_ms = layer_ms * (1 + index / 2) * (stage.end_layer - stage.first_layer)
        stages.append(
            replace(
                stage,
                forward_ms=forward_ms,
                backward_ms=2 * forward_ms,
                backward_shares=(1 / len(units),) * len(units),
                update_ms=2.0 + index,
            )
        )
    sends = tuple(Send(wire="long" if s == 0 else "node", payload_bytes=2e4) for s in range(len(stages) - 1))
    return replace(replica, stages=tuple(stages), sends=sends)


def emulated_plan(
    replicas: list[Replica],
    *,
    layer_ms: float,
    schedule: str = "1f1b",
    zero: int = 0,
    tied: bool = False,
    virtual: int = 1,
) -> tuple[str, Plan]:
    """Build a timed plan of the tiny model; gives its config too."""
    text = config(LAYERS, tied=tied)
    spec = job(steps=4, batch=sum(each.sequences for each in replicas)).train
    made = plan(shape_of(text), replicas, spec, schedule=schedule, zero=zero, virtual=virtual)
    return text, timed(made, layer_ms=layer_ms)


def virtual_steps_ms(text: str, the_plan: Plan, tmp: Path) -> list[float]:
    """Run a timed plan for 4 steps; gives every step's time by rank 0's virtual clock."""
    board = tmp / "board"
    board.write_bytes(bytes(board_bytes(the_plan)))
    spec = job(steps=4, batch=the_plan.global_batch_size)
    reports = run_plan(the_plan, spec, text, tokens(tmp / "tokens"), tmp, board=str(board))
    return [report.virtual_s * 1e3 for report in reports if isinstance(report, StepDone) and report.virtual_s]
