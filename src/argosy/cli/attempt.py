"""One attempt of a job on this machine: data, agents, ranks, and what they report until all have ended.

Tells a listener what happens and gives an Outcome; it prints nothing and draws no conclusions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from argosy.cli.choosing import Choice
from argosy.cli.data import DataListener, prepare_data
from argosy.cli.inputs import Inputs
from argosy.cli.record import Record
from argosy.cli.used import plan_classes
from argosy.contracts.messages import Failed, Finished, Launch, RankExited, Saved, StepDone, Upward
from argosy.engine.failure import first_failure
from argosy.engine.local import LocalEngine, LocalOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How to run.

    directory: of the run's files. trace: have every rank write what it did. port: of the ranks' store, 0 for any.
    """

    directory: Path
    trace: bool = False
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended.

    steps: of the whole curve; new_steps: how many of them are this attempt's. failure: the message that names the
    cause. saved: path of the newest checkpoint of this attempt.
    """

    steps: tuple[StepDone, ...]
    new_steps: int
    finished: tuple[Finished, ...] = ()
    failure: Failed | RankExited | None = None
    interrupted: bool = False
    saved: str = ""


class Listener(DataListener, Protocol):
    """Whoever shows what happens."""

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Show the plan, before anything is started."""

    def heard(self, message: Upward) -> None:
        """Show what an agent or rank said."""


def run_attempt(inputs: Inputs, choice: Choice, wishes: Wishes, listener: Listener) -> Outcome:
    """Prepare data, launch, and follow the ranks to their end.

    Raises ArgosyError for what goes wrong before the ranks run; what goes wrong in them is in the Outcome.
    """
    if choice.from_file:
        # Loads torch, so only for plans that our own planner did not make.
        import_module("argosy.train.refusal").check_runnable(choice.plan, choice.shape)
    info = prepare_data(inputs, choice.shape.vocab_size, listener)
    launch = make_launch(inputs, choice, wishes, str(info.folder))
    used = {place.node for place in choice.plan.placement}
    nodes = [node for node in inputs.nodes if node.name in used]
    with Record(wishes.directory) as record:
        record.begin(inputs.job, choice.plan)
        with LocalEngine(nodes, wishes.directory, LocalOptions(store_port=wishes.port)) as engine:
            return follow(engine, launch, record, listener.heard)


def make_launch(inputs: Inputs, choice: Choice, wishes: Wishes, tokens: str) -> Launch:
    """Put together what every rank is given; the engine adds the store and the clock's board."""
    used = plan_classes(choice.plan, inputs)
    return Launch(
        attempt=f"{inputs.job.name}-1",
        generation=0,
        plan=choice.plan,
        job=inputs.job,
        model_config=choice.config,
        store_host="",
        store_port=0,
        tokens=tokens,
        directory=str(wishes.directory.absolute()),
        devices={c.name: c.chip.torch_device for c in used if not c.emulated},
        trace=wishes.trace,
    )


def follow(engine: LocalEngine, launch: Launch, record: Record, heard: Callable[[Upward], None]) -> Outcome:
    """Launch and take in every message; an interrupt stops the ranks and waits for them."""
    messages: list[Upward] = []
    interrupted = False
    try:
        engine.launch(launch)
        listen(engine, record, heard, messages)
    except KeyboardInterrupt:
        interrupted = True
        engine.stop("interrupted")
        listen(engine, record, lambda _: None, messages)
    return Outcome(
        steps=tuple(record.steps),
        new_steps=record.new_steps,
        finished=tuple(message for message in messages if isinstance(message, Finished)),
        failure=None if interrupted else first_failure(messages),
        interrupted=interrupted,
        saved=next((message.path for message in reversed(messages) if isinstance(message, Saved)), ""),
    )


def listen(engine: LocalEngine, record: Record, heard: Callable[[Upward], None], messages: list[Upward]) -> None:
    """Take in messages until all ranks have ended."""
    for message in engine.messages():
        if not isinstance(message, StepDone):  # the record has those
            messages.append(message)
        record.take(message)
        heard(message)
