"""What of a plan the trainer can't run, said by name before anything starts.

Checks only what running needs; whether a plan is good is the planner's business.
"""

from argosy.comm.groups import tp_slices
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import TRAINER_PROGRAM, TRAINER_SCHEDULES, Plan, Replica
from argosy.model.shape import ModelShape, check_trainable
from argosy.train.tensor_parallel import check_divides


def check_runnable(plan: Plan, shape: ModelShape) -> None:
    """Raise BadInputError naming the first thing in a plan that the trainer can't run."""
    check_trainable(shape)
    for what, refused in (*_not_this_model(plan, shape), *_refusals(plan)):
        if refused:
            raise BadInputError(f"the trainer can't run this plan: {what}")
    degrees = {stage.tp for replica in plan.replicas for stage in replica.stages}
    check_divides(shape, tp_slices(plan), sorted(degrees))


def _not_this_model(plan: Plan, shape: ModelShape) -> list[tuple[str, bool]]:
    return [
        (f"it is for {plan.num_layers} layers, the model has {shape.num_layers}", plan.num_layers != shape.num_layers),
        (
            f"it is for {_tied(plan.tied_embeddings)}, the model has {_tied(shape.tied_embeddings)}",
            plan.tied_embeddings != shape.tied_embeddings,
        ),
    ]


def _tied(tied: bool) -> str:
    return "tied embeddings" if tied else "a head of its own"


def _has_gaps(plan: Plan, replica: Replica) -> bool:
    layers = [layer for stage in replica.stages for layer in range(stage.first_layer, stage.end_layer)]
    return layers != list(range(plan.num_layers))


def _refusals(plan: Plan) -> list[tuple[str, bool]]:
    stages = [stage for replica in plan.replicas for stage in replica.stages]
    sequences = sum(replica.sequences for replica in plan.replicas)
    return [
        (
            f"schedule {plan.schedule!r} (it runs {', '.join(TRAINER_SCHEDULES)})",
            plan.schedule not in TRAINER_SCHEDULES,
        ),
        (f"ZeRO stage {plan.zero_stage} (it runs 0 and 1)", plan.zero_stage not in (0, 1)),
        (f"precision {plan.precision!r} (it runs fp32 and bf16)", plan.precision not in ("fp32", "bf16")),
        (f"gradients exchanged in {plan.reduce_dtype!r} (fp32 and bf16)", plan.reduce_dtype not in ("fp32", "bf16")),
        ("context parallelism", any(stage.cp != 1 for stage in stages)),
        ("expert parallelism", any(stage.ep != 1 for stage in stages)),
        ("selective recompute (it runs none and full)", any(s.recompute not in ("none", "full") for s in stages)),
        (
            "stages of one replica with different TP degrees",
            any(len({stage.tp for stage in replica.stages}) > 1 for replica in plan.replicas),
        ),
        ("ranks are not bound to nodes", any(len(stage.ranks) != stage.tp for stage in stages)),
        # A TP index is a place in an ascending group.
        ("ranks of a TP group do not ascend", any(list(s.ranks) != sorted(set(s.ranks)) for s in stages)),
        ("a stage without units", any(not plan.units(stage) for stage in stages)),
        ("layers of a replica overlap or have gaps", any(_has_gaps(plan, replica) for replica in plan.replicas)),
        (
            f"replicas take {sequences} sequences, the global batch has {plan.global_batch_size}",
            sequences != plan.global_batch_size,
        ),
        (
            f"{plan.schedule} with fewer micro-batches than stages (use gpipe)",
            plan.schedule in ("1f1b", "zero-bubble") and any(r.microbatches < len(r.stages) for r in plan.replicas),
        ),
        (
            f"{plan.virtual_stages} virtual stages with schedule {plan.schedule} (more than 1 go with interleaved)",
            (plan.virtual_stages > 1) != (plan.schedule == "interleaved"),
        ),
        (
            "interleaved with counts that don't fit: it needs several places and as many micro-batches, or a multiple",
            any(_does_not_interleave(plan, r) for r in plan.replicas),
        ),
        (
            "zero-bubble with micro-batches that torch can't deal into as many rounds as they fill the pipeline",
            plan.schedule == "zero-bubble" and any(_leaves_a_rest(r) for r in plan.replicas),
        ),
        ("virtual stages of one place on different ranks", any(_scattered(plan, r) for r in plan.replicas)),
        (
            f"its times and memory are those of {plan.program}; `argosy plan --runnable` lists the trainer's own",
            plan.program != TRAINER_PROGRAM,
        ),
    ]


def _does_not_interleave(plan: Plan, replica: Replica) -> bool:
    places = len(plan.places(replica))
    return plan.virtual_stages > 1 and (places < 2 or replica.microbatches % places != 0)


def _leaves_a_rest(replica: Replica) -> bool:
    """Tell whether micro-batches are no multiple of the rounds that torch's zero-bubble schedule makes of them."""
    return replica.microbatches % max(1, replica.microbatches // len(replica.stages)) != 0


def _scattered(plan: Plan, replica: Replica) -> bool:
    """Tell whether the stages can't be dealt over places, or those of one place have ranks of their own."""
    if plan.virtual_stages < 1 or len(replica.stages) % plan.virtual_stages:
        return True
    places = range(len(plan.places(replica)))
    return any(len({stage.ranks for stage in plan.stages_at(replica, place)}) != 1 for place in places)
