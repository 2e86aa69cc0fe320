"""The local engine with real processes and ranks that only pretend to train."""

import os
import signal
from dataclasses import replace

import pytest

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.messages import AgentReady, Failed, Finished, Note, RankExited, Ready, StepDone
from argosy.engine.failure import failure_error, first_failure
from argosy.engine.local import LocalEngine, LocalOptions, ranks_by_node
from support.launches import engine, exit_codes, launch, node, plan, wait_for_deaths

pytestmark = pytest.mark.slow


def run(directory, entry, the_launch=None, **options):
    """Run one launch to its end and return all messages."""
    with engine(directory, entry, **options) as running:
        running.launch(the_launch or launch())
        return list(running.messages())


def ready_pids(messages, count):
    """Read messages until so many ranks are ready; returns rank -> process number."""
    pids = {}
    while len(pids) < count:
        message = next(messages)
        if isinstance(message, Ready):
            pids[message.rank] = message.pid
    return pids


class TestRun:
    def test_reports_of_all_ranks_come_merged(self, tmp_path):
        """Every rank of every node is heard, with its node, rank and generation filled in."""
        messages = run(tmp_path, "train", launch(generation=3))
        finished = {(message.node, message.rank) for message in messages if isinstance(message, Finished)}
        assert finished == {("north-1", 0), ("north-1", 1), ("south-1", 2), ("south-1", 3)}
        assert {message.generation for message in messages if isinstance(message, StepDone)} == {3}
        assert exit_codes(messages) == {0: 0, 1: 0, 2: 0, 3: 0}

    def test_exit_is_the_last_word_of_a_rank(self, tmp_path):
        """RankExited comes after all that the rank reported, and agents are ready before any of it."""
        messages = run(tmp_path, "train")
        for rank in range(4):
            own = [message for message in messages if message.rank == rank]
            assert [type(message) for message in own] == [Ready, StepDone, StepDone, StepDone, Finished, RankExited]
        assert isinstance(messages[0], AgentReady)

    def test_exit_codes_are_passed_on(self, tmp_path):
        """What the entry returns is the exit code that arrives."""
        assert exit_codes(run(tmp_path, "exit_with_rank")) == {0: 0, 1: 1, 2: 2, 3: 3}

    def test_output_goes_to_a_log_per_rank(self, tmp_path):
        """What a rank prints is in logs/rank-N.log and only there."""
        run(tmp_path, "train")
        for rank in range(4):
            assert (tmp_path / "logs" / f"rank-{rank}.log").read_text() == f"rank {rank} prints\n"

    def test_a_rank_inherits_nothing(self, tmp_path):
        """A rank has its standard streams, its report pipe and no other descriptor; threads are bounded."""
        notes = [message.text for message in run(tmp_path, "describe") if isinstance(message, Note)]
        # the fifth is that of the listing itself
        assert notes.count("descriptors 5 threads 1") == 4
        assert notes.count(f"store :0 directory {tmp_path}") == 4

    def test_more_reports_than_buffers_hold_arrive(self, tmp_path):
        """A flood of 6 MB a rank comes through whole and in order."""
        messages = run(tmp_path, "flood", launch(plan(("north-1",))), nodes=("north-1",))
        for rank in (0, 1):
            numbers = [int(m.text.split()[0]) for m in messages if isinstance(m, Note) and m.rank == rank]
            assert numbers == list(range(400))

    def test_a_garbled_report_is_a_warning(self, tmp_path):
        """A line that is no report costs that line, not the job."""
        messages = run(tmp_path, "garble", launch(plan(("north-1",), chips=1)), nodes=("north-1",))
        warning, good = (message for message in messages if isinstance(message, Note))
        assert warning.level == "warning"
        assert "a report of rank 0 was dropped" in warning.text
        assert good.text == "still here"

    def test_a_second_launch_reuses_the_crew(self, tmp_path):
        """After all ranks ended, the next generation starts on the same agents and appends to the logs."""
        with engine(tmp_path, "train") as running:
            running.launch(launch())
            list(running.messages())
            running.launch(launch(generation=1))
            messages = list(running.messages())
        assert exit_codes(messages) == {0: 0, 1: 0, 2: 0, 3: 0}
        assert (tmp_path / "logs" / "rank-0.log").read_text() == "rank 0 prints\n" * 2

    def test_a_board_is_made_for_emulated_chips(self, tmp_path):
        """Ranks of an emulated plan share a file of zeros; it is gone with the engine."""
        with engine(tmp_path, "show_board") as running:
            running.launch(launch(plan(emulated=True)))
            notes = {m.rank: m.text for m in running.messages() if isinstance(m, Note)}
        assert notes == {rank: f"{1 << 30} {rank + 1}" for rank in range(4)}


class TestFailure:
    def test_the_cause_wins_over_symptoms(self, tmp_path):
        """A rank that blames the user is chosen over one that lost a peer; what hangs is stopped."""
        messages = run(tmp_path, "fail_first")
        failure = first_failure(messages)
        assert isinstance(failure, Failed)
        assert (failure.rank, failure.blame, failure.text) == (0, "user", "corpus.txt: no text in it")
        assert "UserCodeError" in failure.traceback
        assert exit_codes(messages) == {0: 4, 1: 5, 2: -15, 3: -15}

    def test_a_killed_rank_is_named(self, tmp_path):
        """A kill -9 of one rank is told as such, and the others are stopped."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch())
            messages = running.messages()
            os.kill(ready_pids(messages, 4)[2], signal.SIGKILL)
            rest = list(messages)
        assert str(failure_error(first_failure(rest))).startswith("rank 2 on south-1 was killed by SIGKILL")
        assert exit_codes(rest) == {0: -15, 1: -15, 2: -9, 3: -15}

    def test_what_a_rank_started_dies_with_it(self, tmp_path):
        """Processes that a killed rank left behind are killed."""
        with engine(tmp_path, "wait_with_child", nodes=("north-1",)) as running:
            running.launch(launch(plan(("north-1",), chips=1)))
            messages = running.messages()
            child = next(int(m.text) for m in messages if isinstance(m, Note))
            os.kill(ready_pids(messages, 1)[0], signal.SIGKILL)
            list(messages)
            assert wait_for_deaths([child]) == []

    def test_a_lost_node_is_reported(self, tmp_path):
        """Killing a node's agent kills its ranks; the node's loss is the cause, not the ranks stopped after it."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch())
            messages = running.messages()
            pids = ready_pids(messages, 4)
            running.kill_node("south-1")
            rest = list(messages)
            assert wait_for_deaths([pids[2], pids[3]]) == []
        failure = first_failure(rest)
        assert (failure.node, failure.rank, failure.blame) == ("south-1", -1, "infrastructure")
        assert "was killed by SIGKILL" in failure.text
        assert exit_codes(rest) == {0: -15, 1: -15, 2: -9, 3: -9}

    def test_a_lost_fork_server_ends_the_ranks(self, tmp_path):
        """Killing the fork server kills all ranks; every agent says so."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch())
            messages = running.messages()
            pids = ready_pids(messages, 4)
            os.kill(running._crew._fork_server.pid, signal.SIGKILL)
            rest = list(messages)
            assert wait_for_deaths(list(pids.values())) == []
        assert exit_codes(rest) == {0: -9, 1: -9, 2: -9, 3: -9}
        assert "the fork server's process for it ended" in first_failure(rest).text

    def test_a_spare_may_be_lost(self, tmp_path):
        """A node without ranks that dies is a warning."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch(plan(("north-1",))))
            messages = running.messages()
            ready_pids(messages, 2)
            running.kill_node("south-1")
            warning = next(m for m in messages if isinstance(m, Note))
            assert "node south-1 is lost" in warning.text
            assert running.running == (0, 1)

    def test_a_lost_node_cannot_be_launched_on(self, tmp_path):
        """A launch on a node whose agent died says so at once."""
        with engine(tmp_path, "train") as running:
            running.launch(launch())
            list(running.messages())
            running.kill_node("north-1")
            wait_for_deaths([running._crew._agents["north-1"].pid])
            running._crew.poll(5.0)
            with pytest.raises(InfrastructureError, match=r"node north-1 is lost: .*SIGKILL"):
                running.launch(launch(generation=1))


class TestStop:
    def test_stop_ends_ranks_by_sigterm(self, tmp_path):
        """Ranks that heed SIGTERM end with it."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch())
            messages = running.messages()
            ready_pids(messages, 4)
            running.stop("interrupted")
            running.stop("twice")
            assert exit_codes(list(messages)) == dict.fromkeys(range(4), -15)

    def test_stop_kills_after_the_grace(self, tmp_path):
        """Ranks deaf to SIGTERM are killed."""
        with engine(tmp_path, "wait_stubbornly", stop_grace_s=0.1) as running:
            running.launch(launch())
            messages = running.messages()
            ready_pids(messages, 4)
            running.stop("interrupted")
            assert exit_codes(list(messages)) == dict.fromkeys(range(4), -9)

    def test_an_agent_that_does_not_answer_is_killed(self, tmp_path, monkeypatch):
        """A stopped agent process can't keep its ranks alive beyond the stop."""
        monkeypatch.setattr("argosy.engine.local.ANSWER_S", 0.1)
        with engine(tmp_path, "wait", stop_grace_s=0.1) as running:
            running.launch(launch())
            messages = running.messages()
            pids = ready_pids(messages, 4)
            os.kill(running._crew._agents["north-1"].pid, signal.SIGSTOP)
            running.stop("interrupted")
            assert exit_codes(list(messages)) == {0: -9, 1: -9, 2: -15, 3: -15}
            assert wait_for_deaths(list(pids.values())) == []

    def test_close_kills_what_runs(self, tmp_path):
        """After close no process and no socket is left; a second close does nothing."""
        running = engine(tmp_path, "wait_stubbornly")
        running.launch(launch())
        pids = list(ready_pids(running.messages(), 4).values())
        crew = running._crew
        running.close()
        running.close()
        assert wait_for_deaths([*pids, crew._fork_server.pid, *(agent.pid for agent in crew._agents.values())]) == []
        assert not crew.private.exists()

    def test_silence_is_bounded(self, tmp_path):
        """An engine that hears nothing says so instead of waiting for ever."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch())
            with pytest.raises(InfrastructureError, match=r"ranks 0, 1, 2, 3 run but said nothing for 0\.3 s"):
                list(running.messages(timeout_s=0.3))


class TestStart:
    def test_an_entry_that_does_not_exist(self, tmp_path):
        """A wrong entry is named at the launch."""
        with (
            pytest.raises(InfrastructureError, match=r"module support\.fake_ranks has no function 'nonsense'"),
            engine(tmp_path, "nonsense") as running,
        ):
            running.launch(launch())

    def test_a_missing_library(self, tmp_path):
        """A library of an extra that isn't installed is answered with the command that installs it."""
        message = r"argosy train needs no_such_torch, which isn't installed: pip install 'argosy\[train\]'"
        with (
            pytest.raises(InfrastructureError, match=message),
            engine(tmp_path, "train", preload=("no_such_torch",)) as running,
        ):
            running.launch(launch())

    def test_an_agent_that_dies_at_once(self, tmp_path, monkeypatch):
        """An agent that can't start is an error with the end of its log, not a hang."""
        monkeypatch.setattr("argosy.engine.crew.AGENT_MODULE", "argosy.no_such_agent")
        with (
            pytest.raises(InfrastructureError, match=r"(?s)agent of node north-1 ended with code 1.*no_such_agent"),
            engine(tmp_path, "train") as running,
        ):
            running.launch(launch())

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        """Logs below a file are refused, naming the folder."""
        (tmp_path / "file").write_text("")
        with pytest.raises(InfrastructureError, match=r"can't make the folder .*file/logs: Not a directory"):
            engine(tmp_path / "file", "train").start()

    def test_a_port_in_use(self, tmp_path):
        """A fixed port that is taken is named, with what to do."""
        import socket

        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with (
                pytest.raises(InfrastructureError, match=rf"store on 127\.0\.0\.1:{port}: .*in use; choose another"),
                engine(tmp_path, "train", host_store=True, store_port=port) as running,
            ):
                running.launch(launch())

    def test_a_launch_while_ranks_run(self, tmp_path):
        """Two launches at once are refused."""
        with engine(tmp_path, "wait") as running:
            running.launch(launch())
            with pytest.raises(BadInputError, match="ranks 0, 1, 2, 3 of the last launch still run"):
                running.launch(launch(generation=1))

    def test_a_log_that_cannot_be_written(self, tmp_path):
        """A rank whose log can't be opened fails, and so do those after it."""
        (tmp_path / "logs" / "rank-1.log").mkdir(parents=True)
        messages = run(tmp_path, "wait", launch(plan(("north-1",))), nodes=("north-1",))
        assert "can't write its log" in first_failure(messages).text
        assert exit_codes(messages) == {0: -15, 1: 5}


NODES = {name: node(name) for name in ("north-1", "south-1")}


class TestPlacement:
    def test_ranks_are_grouped_by_node(self):
        """Each node gets its own ranks in order."""
        assert ranks_by_node(launch(), NODES) == {"north-1": (0, 1), "south-1": (2, 3)}

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"node": "east-1"}, "rank 0 is placed on node 'east-1'; the nodes are north-1, south-1"),
            ({"chip": 2}, "rank 0 is placed on chip 2 of north-1, which has 2"),
            ({"rank": 1}, "the plan has 4 ranks but places 4"),
        ],
    )
    def test_what_nodes_cannot_hold_is_refused(self, change, text):
        """An unknown node, a chip that isn't there and a rank placed twice are named."""
        the_plan = plan()
        first, *rest = the_plan.placement
        broken = replace(the_plan, placement=(replace(first, **change), *rest))
        with pytest.raises(BadInputError, match=text):
            ranks_by_node(launch(broken), NODES)

    def test_an_unbound_plan_is_refused(self):
        """A plan without placement can't be launched."""
        with pytest.raises(BadInputError, match="has 4 ranks but places 0; bind it"):
            ranks_by_node(launch(replace(plan(), placement=())), NODES)


class TestEngineObject:
    def test_unknown_node_to_kill(self, tmp_path):
        """Killing a node that isn't there names those that are."""
        with pytest.raises(BadInputError, match="no node 'east-1'; the nodes are north-1"):
            LocalEngine([node("north-1")], tmp_path, LocalOptions()).kill_node("east-1")

    def test_nothing_is_started_by_construction(self, tmp_path):
        """An engine that never starts leaves nothing and may be closed."""
        running = LocalEngine([node("north-1")], tmp_path / "runs")
        running.close()
        assert list(running.messages()) == []
        assert not (tmp_path / "runs").exists()
