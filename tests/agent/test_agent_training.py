"""Training through agents: two nodes of one host, emulated chips, the fork server that they share."""

import dataclasses
import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from argosy.agent.folder import AttemptFolder, board_path
from argosy.agent.warm import WarmServer, await_socket
from argosy.cli.attempt import Wishes, make_launch
from argosy.cli.choosing import choose
from argosy.contracts.messages import Note, StepDone
from argosy.contracts.talk import Gang, RankSaid, StartTrain, StopAttempt
from argosy.engine.verdict import judge
from support.agents import agent, alive
from support.runs import make_workspace
from support.talk_server import TalkServer, until

pytestmark = pytest.mark.slow
ATTEMPT = "job-1.1"
FOREVER = "train.steps=100000"


@pytest.fixture(scope="module")
def fork_folder():
    """Give a folder in memory whose fork server the module's agents share."""
    folder = Path("/dev/shm") / f"argosy-test-{os.getpid()}"
    warm = WarmServer(folder)
    warm.ensure()
    await_socket(folder, 120.0)
    yield folder
    warm.release()
    until(lambda: not (folder / "fork").exists(), "the fork server's end")
    shutil.rmtree(folder)


class Two:
    """Two agents and the order to train on both."""

    def __init__(self, folder, *settings):
        workspace = make_workspace(folder)
        inputs = workspace.inputs(f"data.files={folder}/corpus.txt", *settings)
        choice = choose(inputs, None)
        self.launch = make_launch(inputs, choice, Wishes(directory=folder), "")
        self.launch = dataclasses.replace(self.launch, attempt=ATTEMPT, directory="")
        self.ranks = {place.node: (place.rank,) for place in choice.plan.placement}
        self.nodes = tuple(self.ranks)
        self.server = TalkServer()

    def order(self, number, meeting=None, generation=0):
        """Order one node to start its rank."""
        node = self.nodes[number]
        gang = Gang(
            job="job-1",
            nodes=len(self.nodes),
            node_rank=number,
            first_rank=self.ranks[node][0],
            ranks=1,
            world_size=len(self.nodes),
            meeting=meeting,
        )
        return StartTrain(
            id=f"start-{generation}",
            term=1,
            attempt=ATTEMPT,
            generation=generation,
            gang=gang,
            launch=self.launch,
            ranks=self.ranks[node],
        )

    def start(self, generation=0):
        """Start all nodes, the first first."""
        self.server.order(self.order(0, generation=generation), node=self.nodes[0])
        first = self.await_all(lambda held: held.meeting and held.generation == generation, self.nodes[:1])
        for number in range(1, len(self.nodes)):
            self.server.order(self.order(number, first[self.nodes[0]].meeting, generation), node=self.nodes[number])

    def await_all(self, test, nodes=()):
        """Wait for what nodes hold."""
        return {node: self.server.await_held(ATTEMPT, test, node) for node in nodes or self.nodes}

    def said(self, kind):
        """Give what ranks reported."""
        reports = [report.message for report in self.server.reports.values() if isinstance(report, RankSaid)]
        return [message for message in reports if isinstance(message, kind)]


def agents(two, folder, fork_folder, stack):
    """Run an agent for each node."""
    flags = ("--fork-folder", str(fork_folder))
    return [stack.enter_context(agent(two.server, folder, *flags, node=node)) for node in two.nodes]


@pytest.fixture
def stack(tmp_path, monkeypatch):
    """Close what a test opened; the current folder is the workspace."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as opened:
        yield opened


class TestTraining:
    def test_two_nodes_train_together(self, tmp_path, fork_folder, stack):
        """A plan over two nodes trains to its end; every step is reported, and the judgement is: done."""
        two = Two(tmp_path)
        agents(two, tmp_path, fork_folder, stack)
        two.start()
        held = two.await_all(lambda held: held.state == "ended")
        assert judge(held, 2).outcome == "done"
        until(lambda: len(two.said(StepDone)) == 4, "four steps")
        assert [message.step for message in two.said(StepDone)] == [1, 2, 3, 4]

    def test_agents_may_die_meanwhile(self, tmp_path, fork_folder, stack):
        """Both agents are killed and started again; training goes on, and no step is told twice."""
        two = Two(tmp_path, FOREVER)
        running = agents(two, tmp_path, fork_folder, stack)
        two.start()
        pids = {node: held.ranks[0].pid for node, held in two.await_all(lambda held: held.state == "running").items()}
        until(lambda: len(two.said(StepDone)) > 3, "steps")
        for one in running:
            one.kill()
        before = len(two.said(StepDone))
        for one in running:
            one.start()
        until(lambda: len(two.said(StepDone)) > before + 3, "more steps")
        assert {node: held.ranks[0].pid for node, held in two.await_all(lambda held: True).items()} == pids
        said = [report for report in two.server.reports.values() if isinstance(report, RankSaid)]
        places = {(report.message.node, report.position) for report in said}
        assert len(said) - len(places) <= 3  # those that were on their way when the agents died came again
        stop(two)
        assert not any(alive(pid) for pid in pids.values())

    def test_a_killed_rank_is_found_and_the_next_generation_runs(self, tmp_path, fork_folder, stack):
        """Kill -9 of one rank ends the generation on both nodes; the judgement names it; the next one starts."""
        two = Two(tmp_path, FOREVER)
        agents(two, tmp_path, fork_folder, stack)
        two.start()
        held = two.await_all(lambda held: held.step is not None and held.state == "running")
        os.kill(held[two.nodes[1]].ranks[0].pid, signal.SIGKILL)
        held = two.await_all(lambda held: held.state == "ended")
        verdict = judge(held, 2)
        assert (verdict.node, verdict.outcome) == (two.nodes[1], "infrastructure")
        stop(two)
        two.start(generation=1)
        two.await_all(lambda held: held.generation == 1 and held.state == "running")
        stop(two, generation=1)

    def test_a_killed_runner_takes_its_rank_along(self, tmp_path, fork_folder, stack):
        """The fork server kills the ranks of a runner that is gone."""
        two = Two(tmp_path, FOREVER)
        running = agents(two, tmp_path, fork_folder, stack)
        two.start()
        held = two.await_all(lambda held: held.state == "running")
        folder = running[0].folder / "services" / "s1" / "attempts" / ATTEMPT / "0"
        os.kill(AttemptFolder(folder).runner_pid(), signal.SIGKILL)
        first = two.await_all(lambda held: held.state == "ended", two.nodes[:1])[two.nodes[0]]
        assert first.text == "its runner was killed, and its ranks with it"
        assert not alive(held[two.nodes[0]].ranks[0].pid)
        assert not board_path(first.meeting.port).exists()
        stop(two)

    def test_a_stop_with_time_saves_first(self, tmp_path, fork_folder, stack):
        """Ranks that are asked to stop end their step, save, and leave; the next generation goes on from there."""
        two = Two(tmp_path, FOREVER, f"checkpoint.to={tmp_path}/saved")
        agents(two, tmp_path, fork_folder, stack)
        two.start()
        until(lambda: len(two.said(StepDone)) > 2, "steps")
        held = stop(two, grace_s=30.0)
        assert [one.ranks[0].code for one in held.values()] == [143, 143]
        (saved,) = (tmp_path / "saved").glob("step-*")
        two.start(generation=1)
        until(lambda: any(f"resumed from {saved}" in note.text for note in two.said(Note)), "going on")
        stop(two, generation=1)

    def test_bad_data_is_the_users(self, tmp_path, fork_folder, stack):
        """What is wrong with the data is told by the node that makes it ready."""
        two = Two(tmp_path)
        (tmp_path / "corpus.txt").write_text("")
        agents(two, tmp_path, fork_folder, stack)
        two.server.order(two.order(0), node=two.nodes[0])
        held = two.await_all(lambda held: held.state == "ended", two.nodes[:1])[two.nodes[0]]
        assert held.blame == "user"
        assert held.text.startswith("data.files: ")


def stop(two, generation=0, grace_s=0.0):
    """Stop all nodes; gives what they hold then."""
    name = f"stop-{generation}"
    for node in two.nodes:
        order = StopAttempt(id=name, term=1, attempt=ATTEMPT, generation=generation, reason="test", grace_s=grace_s)
        two.server.order(order, node=node)
    return two.await_all(lambda held: held.state == "stopped" and held.generation >= generation)
