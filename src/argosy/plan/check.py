"""What makes a plan legal, whoever made it: the timeline, the binder and a person's own plan all pass here.

Must not judge whether a plan is good, nor whether this trainer can run it.
"""

import math
from collections.abc import Mapping

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Replica, Stage
from argosy.network.wires import find_wire
from argosy.plan.schedules import check_schedule

SHARES_TOLERANCE = 1e-6
ZERO_STAGES = (0, 1, 2, 3)


def check_plan(plan: Plan) -> None:
    """Raise BadInputError at the first thing that can't be: gaps in layers, unknown wires, a batch that is off."""
    if not plan.replicas:
        raise BadInputError("the plan has no replica; it needs at least one")
    # Like replicas are mostly one object, and there may be thousands.
    first = {id(replica): index for index, replica in reversed(list(enumerate(plan.replicas)))}
    for index in sorted(first.values()):
        check_replica(plan, plan.replicas[index], f"replica {index}")
    sequences = sum(replica.sequences for replica in plan.replicas)
    if sequences != plan.global_batch_size:
        raise BadInputError(
            f"the replicas take {sequences} sequences a step, global_batch_size is {plan.global_batch_size}; "
            "they must be equal"
        )
    check_zero(plan)
    distinct = {id(stage): stage for replica in plan.replicas for stage in replica.stages}
    held = {key: frozenset(plan.held_units(stage)) for key, stage in distinct.items()}
    for exchange in plan.exchanges:
        check_exchange(plan, exchange, held)
    # Units that the same places hold share their gathers, which may have thousands of members.
    phased = {(id(e.members), id(e.gathers), e.inside_ms > 0, e.gather_bytes): e for e in plan.exchanges if e.phased}
    for exchange in phased.values():
        check_phases(plan, exchange)


def check_zero(plan: Plan) -> None:
    """Check that what is sharded can be: gradients and weights only where no pipeline needs them again and again."""
    if plan.zero_stage not in ZERO_STAGES:
        raise BadInputError(f"zero_stage {plan.zero_stage}; it is one of {', '.join(map(str, ZERO_STAGES))}")
    deep = [index for index, replica in enumerate(plan.replicas) if len(replica.stages) > 1]
    if plan.zero_stage > 1 and deep:
        raise BadInputError(
            f"zero_stage {plan.zero_stage} with replica {deep[0]} of {len(plan.replicas[deep[0]].stages)} stages: "
            "gradients and weights are sharded only where every replica is one stage; use zero_stage 1"
        )


def check_replica(plan: Plan, replica: Replica, where: str) -> None:
    """Check one replica: its stages cover all layers in order, its sends join them, its schedule can run."""
    stages = replica.stages
    if not stages:
        raise BadInputError(f"{where} has no stage; it needs at least one")
    if len(replica.sends) != len(stages) - 1:
        raise BadInputError(
            f"{where} has {len(stages)} stages and {len(replica.sends)} sends; it needs {len(stages) - 1}"
        )
    if replica.microbatch_size < 1:
        raise BadInputError(f"{where}: microbatch_size {replica.microbatch_size}; it needs at least 1")
    check_places(plan, replica, where)
    expected = 0
    for index, stage in enumerate(stages):
        if stage.first_layer != expected or stage.end_layer <= stage.first_layer:
            raise BadInputError(
                f"{where}, stage {index}: layers {stage.first_layer}..{stage.end_layer}; "
                f"it must begin at {expected} and hold at least one"
            )
        expected = stage.end_layer
    if expected != plan.num_layers:
        raise BadInputError(f"{where} ends at layer {expected}; the model has {plan.num_layers}")
    for index, stage in enumerate(stages):
        check_stage(plan, stage, f"{where}, stage {index}")
    for send in replica.sends:
        find_wire(plan.wires, send.wire)


def check_places(plan: Plan, replica: Replica, where: str) -> None:
    """Check what the stages of one place share, and that the schedule can run on these places."""
    count, virtual = len(replica.stages), plan.virtual_stages
    if virtual < 1 or count % virtual:
        raise BadInputError(f"{where}: {count} stages can't be {virtual} virtual stages a place; it must divide them")
    places = count // virtual
    check_schedule(plan.schedule, places, replica.microbatches, virtual)
    for index, stage in enumerate(replica.stages):
        first = replica.stages[index % places]
        if (stage.chip_class, stage.tp, stage.cp, stage.ep) != (first.chip_class, first.tp, first.cp, first.ep):
            raise BadInputError(
                f"{where}, stage {index}: on {stage.width} of {stage.chip_class}, stage {index % places} of the same "
                f"place on {first.width} of {first.chip_class}; virtual stages of a place share class, TP, CP and EP"
            )


def check_stage(plan: Plan, stage: Stage, where: str) -> None:
    """Check one stage's times and shares."""
    times = (stage.forward_ms, stage.backward_ms, stage.update_ms)
    if any(not math.isfinite(time) or time < 0 for time in times):
        raise BadInputError(f"{where}: forward, backward, update take {times} ms; times are finite and not negative")
    if not 0 <= stage.weight_share <= 1:
        raise BadInputError(f"{where}: weight_share {stage.weight_share}; it is a part of backward, from 0 to 1")
    units = plan.units(stage)
    if len(stage.backward_shares) != len(units) or abs(sum(stage.backward_shares) - 1) > SHARES_TOLERANCE:
        raise BadInputError(
            f"{where}: backward_shares {stage.backward_shares}; it needs {len(units)} that sum to 1, "
            "one for each unit held"
        )


def check_exchange(plan: Plan, exchange: Exchange, held: Mapping[int, frozenset[int]]) -> None:
    """Check that an exchange's members exist and hold its unit. held: units by the id of each stage of the plan."""
    find_wire(plan.wires, exchange.wire)
    sizes = (exchange.wire_bytes, exchange.gather_bytes, exchange.inside_ms)
    if any(not math.isfinite(size) or size < 0 for size in sizes) or not exchange.members:
        raise BadInputError(
            f"exchange of unit {exchange.unit}: {len(exchange.members)} members, wire_bytes, gather_bytes, inside_ms "
            f"{sizes}; it needs members, and sizes are finite and not negative"
        )
    for replica, stage in exchange.members:
        if not (0 <= replica < len(plan.replicas) and 0 <= stage < len(plan.replicas[replica].stages)):
            raise BadInputError(f"exchange of unit {exchange.unit}: there is no replica {replica} with a stage {stage}")
        if exchange.unit not in held[id(plan.replicas[replica].stages[stage])]:
            raise BadInputError(f"exchange of unit {exchange.unit}: replica {replica}, stage {stage} does not hold it")


def check_phases(plan: Plan, exchange: Exchange) -> None:
    """Check that an exchange by phases gathers what is sharded inside its sites, each of its members at most once."""
    where = f"exchange of unit {exchange.unit}"
    if bool(exchange.gathers) != (plan.zero_stage > 0) or exchange.gather_bytes > 0:
        raise BadInputError(
            f"{where} by phases has {len(exchange.gathers)} gathers, gather_bytes {exchange.gather_bytes}, zero_stage "
            f"{plan.zero_stage}; what is sharded is gathered inside sites (gathers), nothing where zero_stage is 0"
        )
    left = set(exchange.members)
    for gather in exchange.gathers:
        find_wire(plan.wires, gather.wire)
        if not math.isfinite(gather.payload_bytes) or gather.payload_bytes < 0 or not gather.members:
            raise BadInputError(
                f"{where}: a gather of {len(gather.members)} members, payload_bytes {gather.payload_bytes}; "
                "it needs members, and sizes are finite and not negative"
            )
        if not left.issuperset(gather.members):
            raise BadInputError(f"{where}: a gather with members that the exchange has not, or that gather elsewhere")
        left.difference_update(gather.members)
        sites = {plan.replicas[r].stages[s].chip_class.split("/")[0] for r, s in gather.members}
        if len(sites) > 1:
            raise BadInputError(f"{where}: a gather in {', '.join(sorted(sites))}; by phases each stays in one site")
