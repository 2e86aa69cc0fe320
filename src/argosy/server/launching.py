"""From a decision to orders: what each node of an attempt's generation is told to start, and to stop.

Takes a job, its offering and the nodes that were chosen; knows neither state nor how orders travel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.job import AnyJob, HangSpec, Job, RunJob
from argosy.contracts.messages import Launch
from argosy.contracts.talk import Gang, Meeting, StartRun, StartTrain
from argosy.plan.bind_option import bind_option
from argosy.plan.offering import Offering
from argosy.server.ground import Ground

Start = StartTrain | StartRun
TRAIN_S = 10.0
"""How long a training rank has between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One generation of an attempt that is to run: the core's Launch without its number."""

    attempt: str
    generation: int
    job: str
    option: str
    size: int
    nodes: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int]:
        """What it is known by."""
        return self.attempt, self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What is known of a job: as handed in, its model's config.json, uploaded code, its offerings, newest first."""

    job: AnyJob
    config: str
    bundle: str
    offerings: tuple[Offering, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Muster:
    """Everything that the nodes of one generation are told. order: nodes by their rank; ranks: of each node.

    launch: of a training job, with its bound plan. price_per_hour: of all its chips; None where one's is not known.
    """

    wanted: Wanted
    order: tuple[str, ...]
    ranks: dict[str, tuple[int, ...]]
    chips: dict[str, int]
    brief: Brief
    launch: Launch | None
    price_per_hour: float | None

    @property
    def hang(self) -> HangSpec:
        """When a command counts as hung; no limits for a training job."""
        return self.brief.job.run.hang if isinstance(self.brief.job, RunJob) else HangSpec()

    def start(self, node: str, term: int, meeting: Meeting | None) -> Start:
        """Give a node's order. meeting: None for the node that makes it."""
        ranks = self.ranks[node]
        gang = Gang(
            job=self.wanted.job,
            nodes=len(self.order),
            node_rank=self.order.index(node),
            first_rank=ranks[0],
            ranks=len(ranks),
            world_size=sum(map(len, self.ranks.values())),
            meeting=meeting,
        )
        name = f"{self.wanted.attempt}:{self.wanted.generation}:start"
        attempt, generation = self.wanted.key
        if self.launch is not None:
            return StartTrain(
                id=name,
                term=term,
                attempt=attempt,
                generation=generation,
                gang=gang,
                launch=self.launch,
                ranks=ranks,
            )
        if not isinstance(self.brief.job, RunJob):
            raise BadInputError(f"{attempt}: a job of kind {self.brief.job.kind} has no command")
        return StartRun(
            id=name,
            term=term,
            attempt=attempt,
            generation=generation,
            gang=gang,
            spec=self.brief.job.run,
            chips=self.chips[node],
            bundle=self.brief.bundle,
        )


def muster(wanted: Wanted, brief: Brief, ground: Ground) -> Muster:
    """Work out who runs what. Raises BadInputError for nodes or options that are not what the job was offered."""
    nodes = [_known(ground, name) for name in wanted.nodes]
    chips = {node.name: node.chips for node in nodes}
    price_per_hour = price_of(ground, nodes)
    if isinstance(brief.job, RunJob):
        ranks = _run_ranks(brief.job, nodes)
        return Muster(
            wanted=wanted,
            order=tuple(ranks),
            ranks=ranks,
            chips=chips,
            brief=brief,
            launch=None,
            price_per_hour=price_per_hour,
        )
    launch = _launch(wanted, brief, ground, nodes)
    ranks = ranks_of(launch)
    order = tuple(sorted(ranks, key=lambda name: ranks[name][0]))
    return Muster(
        wanted=wanted,
        order=order,
        ranks=ranks,
        chips=chips,
        brief=brief,
        launch=launch,
        price_per_hour=price_per_hour,
    )


def price_of(ground: Ground, nodes: Sequence[Node]) -> float | None:
    """Add up what the chips of some nodes cost an hour; None where one's price is not known."""
    prices = {each.name: each.chip.price_per_hour for each in ground.classes}
    rates = [node.chips * price for node in nodes if (price := prices.get(node.chip_class)) is not None]
    return sum(rates) if len(rates) == len(nodes) else None


def grace_s_of(job: AnyJob) -> float:
    """Say how long ranks of a job have from SIGTERM to SIGKILL."""
    return job.run.stop_grace_s if isinstance(job, RunJob) else TRAIN_S


def ranks_of(launch: Launch) -> dict[str, tuple[int, ...]]:
    """Group the ranks of a bound plan by node, ascending."""
    found: dict[str, list[int]] = {}
    for place in launch.plan.placement:
        found.setdefault(place.node, []).append(place.rank)
    return {node: tuple(sorted(ranks)) for node, ranks in found.items()}


def _launch(wanted: Wanted, brief: Brief, ground: Ground, nodes: Sequence[Node]) -> Launch:
    """Bind what was chosen; a job that was planned anew meanwhile may hold nodes by an earlier offering."""
    if not isinstance(brief.job, Job):
        raise BadInputError(f"{wanted.attempt}: a job of kind {brief.job.kind} has no plan")
    problem: ArgosyError = BadInputError(f"{wanted.attempt}: the job was offered nothing")
    for offering in brief.offerings:
        try:
            plan = bind_option(offering, wanted.option, wanted.size, nodes)
        except BadInputError as error:
            problem = error
            continue
        return Launch(
            attempt=wanted.attempt,
            generation=wanted.generation,
            plan=plan,
            job=brief.job,
            model_config=brief.config,
            store_host="",
            store_port=0,
            tokens="",
            directory="",
            devices=ground.devices({node.chip_class for node in nodes}),
        )
    raise problem


def _run_ranks(job: RunJob, nodes: Sequence[Node]) -> dict[str, tuple[int, ...]]:
    """Give each process of a command its number, node by node."""
    asked, first = job.run.processes_per_node, 0
    ranks: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        count = 1 if asked is None else asked or node.chips
        ranks[node.name] = tuple(range(first, first + count))
        first += count
    return ranks


def _known(ground: Ground, name: str) -> Node:
    node = ground.nodes.get(name)
    if node is None:
        raise BadInputError(f"node {name} is not in the fleet any more")
    return node
