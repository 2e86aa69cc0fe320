"""Builders for engine and agent: nodes, a bound plan, a launch, an engine of fake ranks, a wait for deaths."""

import os
import select
from collections.abc import Sequence
from pathlib import Path

from argosy.contracts.fleet import Node
from argosy.contracts.job import DataSpec, Job, TrainSpec
from argosy.contracts.messages import Launch, RankExited, Upward
from argosy.contracts.plan import Plan, RankPlace, Replica, Stage
from argosy.engine.local import LocalEngine, LocalOptions

TESTS = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0


def node(name: str, chips: int = 2) -> Node:
    """Make a node of a site named by what stands before the dash."""
    return Node(name=name, site=name.partition("-")[0], chip_class="test", chips=chips)


def plan(nodes: Sequence[str] = ("north-1", "south-1"), chips: int = 2, *, emulated: bool = False) -> Plan:
    """Make a bound plan: one replica, a stage of one layer on every chip of these nodes."""
    places = [(name, chip) for name in nodes for chip in range(chips)]
    stages = tuple(
        Stage(
            first_layer=i,
            end_layer=i + 1,
            chip_class="test",
            forward_ms=1.0,
            backward_ms=2.0,
            backward_shares=(1.0,),
            ranks=(i,),
        )
        for i in range(len(places))
    )
    placement = tuple(
        RankPlace(rank=i, node=name, chip=chip, replica=0, stage=i) for i, (name, chip) in enumerate(places)
    )
    return Plan(
        model="tiny",
        num_layers=len(places),
        fleet="test",
        sequence_length=8,
        global_batch_size=4,
        replicas=(Replica(stages=stages, microbatches=4, microbatch_size=1),),
        placement=placement,
        emulated=emulated,
    )


def launch(the_plan: Plan | None = None, generation: int = 0) -> Launch:
    """Make a launch of a bound plan."""
    job = Job(
        name="test",
        model="tiny",
        data=DataSpec(files=("corpus.txt",)),
        train=TrainSpec(sequence_length=8, global_batch_size=4, steps=3),
    )
    return Launch(
        attempt="test-1",
        generation=generation,
        plan=the_plan or plan(),
        job=job,
        model_config="{}",
        store_host="",
        store_port=0,
        tokens="",
        directory="",
    )


def engine(
    directory: Path, entry: str, nodes: Sequence[str] = ("north-1", "south-1"), **options: object
) -> LocalEngine:
    """Make an engine whose ranks run a function of `support.fake_ranks`, without torch and store."""
    settings = {"preload": (), "host_store": False, "settle_s": 0.2, "stop_grace_s": 0.5, **options}
    chosen = LocalOptions(entry=f"support.fake_ranks:{entry}", **settings)
    return LocalEngine([node(name) for name in nodes], directory, chosen)


def exit_codes(messages: Sequence[Upward]) -> dict[int, int]:
    """Collect rank -> exit code."""
    return {message.rank: message.code for message in messages if isinstance(message, RankExited)}


def wait_for_deaths(pids: Sequence[int], timeout_s: float = PATIENCE_S) -> list[int]:
    """Wait until these processes have ended; returns those that have not by then."""
    left = []
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([descriptor], [], [], timeout_s)[0]:
                left.append(pid)
        finally:
            os.close(descriptor)
    return left
