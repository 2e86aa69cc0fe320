"""What makes a plan legal, whoever made it: the timeline, the binder and a person's own plan all pass here.

Must not judge whether a plan is good, nor whether this trainer can run it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Replica, Stage, Wire
from argosy.network.wires import find_wire
from argosy.plan.timing.schedules import check_schedule

SHARES_TOLERANCE = 1e-6
# Memory is summed in another order than the limit was held against.
MEMORY_TOLERANCE = 1e-9
ZERO_STAGES = (0, 1, 2, 3)
RECOMPUTES = ("none", "selective", "full")


def check_plan(plan: Plan) -> None:
    """Raise BadInputError at the first thing that can't be: gaps in layers, unknown wires, a batch that is off."""
    check_form(plan)
    for name, least in (("sequence_length", 1), ("bucket_bytes", 0)):
        if getattr(plan, name) < least:
            raise BadInputError(f"{name} {getattr(plan, name)}; it needs at least {least}")
    check_amounts("the plan", {"barrier_ms": plan.barrier_ms})
    check_wires(plan.wires)
    for index, replica in unlike_replicas(plan):
        check_replica(plan, replica, f"replica {index}")
    sequences = sum(replica.sequences for replica in plan.replicas)
    if sequences != plan.global_batch_size:
        raise BadInputError(
            f"the replicas take {sequences:,} sequences a step, global_batch_size is {plan.global_batch_size:,}; "
            "they must be equal"
        )
    check_zero(plan)
    distinct = {id(stage): stage for replica in plan.replicas for stage in replica.stages}
    held = {key: frozenset(plan.held_units(stage)) for key, stage in distinct.items()}
    for exchange in plan.exchanges:
        check_exchange(plan, exchange, held)
    check_twice(plan.exchanges)
    # Units that the same places hold share their gathers, which may have thousands of members.
    phased = {(id(e.members), id(e.gathers), e.inside_ms > 0, e.gather_bytes): e for e in plan.exchanges if e.phased}
    for exchange in phased.values():
        check_phases(plan, exchange)


def check_form(plan: Plan) -> None:
    """Check the counts that everything else divides by: replicas, stages, places, degrees, micro-batches."""
    if not plan.replicas:
        raise BadInputError("the plan has no replica; it needs at least one")
    for index, replica in unlike_replicas(plan):
        count, virtual, where = len(replica.stages), plan.virtual_stages, f"replica {index}"
        if not count:
            raise BadInputError(f"{where} has no stage; it needs at least one")
        if virtual < 1 or count % virtual:
            raise BadInputError(
                f"{where}: {count} stages can't be {virtual} virtual stages a place; it must divide them"
            )
        for name, value in (("microbatches", replica.microbatches), ("microbatch_size", replica.microbatch_size)):
            if value < 1:
                raise BadInputError(f"{where}: {name} {value}; it needs at least 1")
        for number, stage in enumerate(replica.stages):
            if min(stage.tp, stage.cp, stage.ep) < 1:
                raise BadInputError(
                    f"{where}, stage {number}: TP {stage.tp}, CP {stage.cp}, EP {stage.ep}; each is at least 1"
                )
            if stage.ep != replica.stages[0].ep:
                raise BadInputError(
                    f"{where}, stage {number}: EP {stage.ep}, stage 0 has {replica.stages[0].ep}; all stages of a "
                    "replica have the same"
                )


def unlike_replicas(plan: Plan) -> list[tuple[int, Replica]]:
    """Give each replica once, with the first number that it has: like ones are mostly one object of thousands."""
    first = {id(replica): (index, replica) for index, replica in reversed(list(enumerate(plan.replicas)))}
    return sorted(first.values(), key=lambda pair: pair[0])


def check_amounts(where: str, amounts: Mapping[str, float]) -> None:
    """Refuse what is not a number, infinite or negative. amounts: by their field's name."""
    for name, amount in amounts.items():
        if not math.isfinite(amount) or amount < 0:
            raise BadInputError(f"{where}: {name} {amount}; it is finite and not negative")


def check_wires(wires: Iterable[Wire]) -> None:
    """Check that every wire has a name of its own, a rate and a delay."""
    seen = set[str]()
    for wire in wires:
        if wire.name in seen:
            raise BadInputError(f"wire {wire.name!r} is there twice; each has a name of its own")
        seen.add(wire.name)
        if not (math.isfinite(wire.gbps) and wire.gbps > 0):
            raise BadInputError(f"wire {wire.name!r}: gbps {wire.gbps}; it is finite and more than 0")
        check_amounts(f"wire {wire.name!r}", {"one_way_ms": wire.one_way_ms})


def check_twice(exchanges: Iterable[Exchange]) -> None:
    """Refuse an exchange that is there twice, and one that has a member twice."""
    alike: dict[object, list[Exchange]] = {}
    checked = set[int]()
    for exchange in exchanges:
        where = f"exchange of unit {exchange.unit}"
        # Members are compared only where all else is alike: there may be thousands, which most exchanges share.
        others = alike.setdefault((exchange.unit, exchange.wire, exchange.wire_bytes), [])
        if exchange in others:
            raise BadInputError(f"{where} is there twice; gradients are summed once")
        others.append(exchange)
        if id(exchange.members) not in checked and len(set(exchange.members)) < len(exchange.members):
            twice = Counter(exchange.members).most_common(1)[0][0]
            raise BadInputError(f"{where}: replica {twice[0]}, stage {twice[1]} is a member twice")
        checked.add(id(exchange.members))


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
    if plan.zero_stage > 1:
        first, *others = [(lockstep(replica), index) for index, replica in unlike_replicas(plan)]
        unlike = next(((how, index) for how, index in others if how != first[0]), None)
        if unlike:
            raise BadInputError(
                f"zero_stage {plan.zero_stage} with replica {unlike[1]} of {unlike[0]} beside replica {first[1]} of "
                f"{first[0]}: all who share gradients and weights send them in every micro-batch, so all replicas must "
                "be alike; use zero_stage 1"
            )


def lockstep(replica: Replica) -> str:
    """Tell what replicas that share gradients or weights in every micro-batch must have in common."""
    stage = replica.stages[0]
    return (
        f"{replica.microbatches:,} micro-batches of {replica.microbatch_size:,} on {stage.chip_class}, "
        f"TP {stage.tp}, CP {stage.cp}, EP {stage.ep}"
    )


def check_replica(plan: Plan, replica: Replica, where: str) -> None:
    """Check one replica: its stages cover all layers in order, its sends join them, its schedule can run."""
    stages = replica.stages
    if len(replica.sends) != len(stages) - 1:
        raise BadInputError(
            f"{where} has {len(stages)} stages and {len(replica.sends)} sends; it needs {len(stages) - 1}"
        )
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
    for index, send in enumerate(replica.sends):
        find_wire(plan.wires, send.wire)
        check_amounts(f"{where}, send {index}", {"payload_bytes": send.payload_bytes})


def check_places(plan: Plan, replica: Replica, where: str) -> None:
    """Check what the stages of one place share, and that the schedule can run on these places."""
    count, virtual = len(replica.stages), plan.virtual_stages
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
    """Check one stage's times, shares, memory and recompute."""
    times = ("forward_ms", "backward_ms", "update_ms", "memory_gb", "memory_limit_gb")
    check_amounts(where, {name: getattr(stage, name) for name in times})
    # A limit of 0 is one that nobody stated.
    if stage.memory_gb > (stage.memory_limit_gb or math.inf) * (1 + MEMORY_TOLERANCE):
        raise BadInputError(
            f"{where}: needs {stage.memory_gb:,.4g} GB, {stage.chip_class} has {stage.memory_limit_gb:,.4g}; it does "
            "not fit"
        )
    if stage.recompute not in RECOMPUTES:
        raise BadInputError(f"{where}: recompute {stage.recompute!r}; it is one of {', '.join(RECOMPUTES)}")
    layers = stage.end_layer - stage.first_layer
    if stage.recompute_layers is not None and not 0 <= stage.recompute_layers <= layers:
        raise BadInputError(f"{where}: recompute_layers {stage.recompute_layers}; it holds {layers}")
    if not 0 <= stage.weight_share <= 1:
        raise BadInputError(f"{where}: weight_share {stage.weight_share}; it is a part of backward, from 0 to 1")
    units = plan.units(stage)
    shares = stage.backward_shares
    # Said so that a share that is no number is refused too.
    sound = len(shares) == len(units) and min(shares) >= 0 and abs(sum(shares) - 1) <= SHARES_TOLERANCE
    if not sound:
        raise BadInputError(
            f"{where}: backward_shares {shares}; it needs {len(units)}, none negative, that sum to 1, "
            "one for each unit held"
        )


def check_exchange(plan: Plan, exchange: Exchange, held: Mapping[int, frozenset[int]]) -> None:
    """Check that an exchange's members exist and hold its unit. held: units by the id of each stage of the plan."""
    find_wire(plan.wires, exchange.wire)
    sizes = ("wire_bytes", "gather_bytes", "inside_ms", "hops")
    check_amounts(f"exchange of unit {exchange.unit}", {name: getattr(exchange, name) for name in sizes})
    if not exchange.members:
        raise BadInputError(f"exchange of unit {exchange.unit} has no members; it needs at least one")
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
        check_amounts(f"{where}, a gather", {"payload_bytes": gather.payload_bytes, "hops": gather.hops})
        if not gather.members:
            raise BadInputError(f"{where}: a gather has no members; it needs at least one")
        if not left.issuperset(gather.members) or len(set(gather.members)) < len(gather.members):
            raise BadInputError(
                f"{where}: a gather with members that the exchange has not, that gather elsewhere, or that are there "
                "twice"
            )
        left.difference_update(gather.members)
        sites = {plan.replicas[r].stages[s].chip_class.split("/")[0] for r, s in gather.members}
        if len(sites) > 1:
            raise BadInputError(f"{where}: a gather in {', '.join(sorted(sites))}; by phases each stays in one site")
