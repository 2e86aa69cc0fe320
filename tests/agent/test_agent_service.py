"""An agent against a server that speaks real HTTP: it joins, talks, and keeps ranks whoever dies."""

import os
import signal
import stat

import pytest

from argosy.agent.folder import LEAVE_SIGNAL, AttemptFolder
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import Forget, LogPart, OrderRefused, ReadLog, StopAttempt
from support.agents import agent, alive
from support.talk_server import TalkServer, start_run, until

pytestmark = pytest.mark.slow
ATTEMPT = "job-1.1"


def is_running(held):
    """Tell whether all ranks are at work."""
    return held.state == "running"


def stop(generation=0, grace_s=0.0):
    """Order an attempt to stop."""
    return StopAttempt(
        id=f"stop-{generation}", term=1, attempt=ATTEMPT, generation=generation, reason="test", grace_s=grace_s
    )


@pytest.fixture
def server():
    """Run a server."""
    running = TalkServer()
    yield running
    running.close()


class TestJoining:
    def test_a_token_becomes_a_key(self, server, tmp_path):
        """An agent joins by its token once, keeps its key to itself, and talks by it from then on."""
        with agent(server, tmp_path) as one:
            one.await_talk()
            assert [(ask.token, ask.node) for ask in server.joins] == [("t", "n1")]
            assert server.talks[0][1] == "n1"
            assert stat.S_IMODE((one.folder / "identity").stat().st_mode) == 0o600
            one.kill()
            one.start()
            one.await_talk(len(server.talked()) + 1)
            assert len(server.joins) == 1

    def test_a_key_that_is_unknown_is_renewed(self, server, tmp_path):
        """A server that lost its memory gives the agent, which still has a token, another key; ranks run on."""
        with agent(server, tmp_path):
            server.order(start_run("sleep 1000"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            sessions = {talk.session for talk in server.talked()}
            server.unknown_keys.add("n1/1")
            until(lambda: {talk.session for talk in server.talked()} - sessions, "another session")
            assert [ask.agent for ask in server.joins] == [server.joins[0].agent] * 2
            assert server.await_held(ATTEMPT, is_running).ranks[0].pid == pid

    def test_a_new_service_begins_with_what_it_starts_itself(self, server, tmp_path):
        """A server whose store was lost knows no key and counts terms from 1: it is obeyed, old ranks are ended."""
        with agent(server, tmp_path):
            server.term = 9
            server.order(start_run("sleep 1000", generation=4, term=9))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            server.order()
            server.service, server.term = "s2", 1
            server.unknown_keys.add("n1/1")
            server.order(start_run("sleep 1000", term=1))
            again = server.await_held(ATTEMPT, lambda held: is_running(held) and held.generation == 0)
            assert not alive(pid)
            assert alive(again.ranks[0].pid)

    def test_an_agent_that_is_refused_ends(self, server, tmp_path):
        """Where neither key nor token is known the agent ends and says why, so whoever starts it can act."""
        with agent(server, tmp_path) as one:
            one.await_talk()
            server.unknown_keys.add("n1/1")
            server.status = 401
            assert one.process.wait(30) == InfrastructureError.exit_code
            assert "the server knows neither this agent's key nor its token" in one.log()

    def test_without_a_token_an_unknown_key_is_only_told(self, server, tmp_path):
        """An agent without a token keeps asking, and its ranks keep their lease's time."""
        with agent(server, tmp_path) as one:
            one.await_talk()
            one.kill()
            one.command[-2:] = []
            server.unknown_keys.add("n1/1")
            one.start()
            until(lambda: "answered 401: no such key" in one.log(), "the refusal")
            assert one.process.poll() is None
            assert len(server.joins) == 1

    def test_facts_come_with_the_first_talk(self, server, tmp_path):
        """The first talk of a session says what the host has, later ones don't repeat it."""
        with agent(server, tmp_path) as one:
            one.await_talk()
            facts = server.talked()[0].facts
            assert [(found.chip, found.count) for found in facts.chips] == [("cpu", 2)]
            assert (facts.address, facts.boot_id) == ("127.0.0.1", server.talked()[0].boot_id)
            server.order(start_run("true"))
            one.await_talk(4)
            assert server.talked()[-1].facts is None

    def test_two_agents_do_not_share_a_folder(self, server, tmp_path):
        """A second agent of the same folder ends with the reason."""
        with agent(server, tmp_path) as one:
            one.await_talk()
            with agent(server, tmp_path) as other:
                assert other.process.wait(30) == 2
                assert "another agent uses" in other.log()

    def test_an_agent_whose_folder_is_gone_ends(self, server, tmp_path):
        """The next one would not know of it, and both would be this node."""
        with agent(server, tmp_path) as one:
            one.await_talk()
            one.folder.rename(tmp_path / "elsewhere")
            assert one.process.wait(30) == InfrastructureError.exit_code
            assert "was removed or moved away; this agent ends" in one.log()

    def test_secrets_stay_out_of_the_log(self, server, tmp_path):
        """Neither token nor key nor the job's environment is ever logged."""
        with agent(server, tmp_path, token="secret-token") as one:
            server.order(start_run("true", environment={"PASSWORD": "secret-word"}))
            server.await_held(ATTEMPT, lambda held: held.state == "ended")
            assert "secret" not in one.log()


class TestOrders:
    def test_an_order_that_comes_again_changes_nothing(self, server, tmp_path):
        """A start that is repeated in every answer runs its ranks once."""
        with agent(server, tmp_path) as one:
            server.order(start_run("echo once; sleep 1000"))
            server.await_held(ATTEMPT, is_running)
            one.await_talk(len(server.talked()) + 3)
            assert (
                one.folder / "services" / "s1" / "attempts" / ATTEMPT / "0" / "logs" / "rank-0.log"
            ).read_text() == "once\n"

    def test_a_stop_closes_the_generation(self, server, tmp_path):
        """What was stopped is told until it is to be forgotten, and a late start of it is refused."""
        with agent(server, tmp_path):
            server.order(start_run("sleep 1000"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            server.order(stop())
            server.await_held(ATTEMPT, lambda held: held.state == "stopped")
            assert not alive(pid)
            server.order(Forget(id="f", term=1, attempt=ATTEMPT), start_run("sleep 1000"))
            refused = server.await_report(lambda report: isinstance(report, OrderRefused))
            assert refused.text.startswith(f"generation 0 of {ATTEMPT} was stopped")
            until(lambda: server.held(ATTEMPT) is None, "forgetting")

    def test_a_stop_of_what_never_ran_is_confirmed(self, server, tmp_path):
        """A stop that overtook its start is confirmed, too: nothing of it will ever run here."""
        with agent(server, tmp_path):
            server.order(stop())
            held = server.await_held(ATTEMPT, lambda held: True)
            assert (held.state, held.ranks) == ("stopped", ())

    def test_a_newer_generation_ends_the_older(self, server, tmp_path):
        """A start of the next generation first ends what is left of this one."""
        with agent(server, tmp_path):
            server.order(start_run("sleep 1000"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            server.order(start_run("sleep 1000", generation=1))
            server.await_held(ATTEMPT, lambda held: held.generation == 1 and is_running(held))
            assert not alive(pid)
            server.order(stop(1))
            server.await_held(ATTEMPT, lambda held: held.state == "stopped")

    def test_another_attempt_does_not_run_beside_it(self, server, tmp_path):
        """Whole nodes: a start beside a running attempt is refused with its name."""
        with agent(server, tmp_path):
            server.order(start_run("sleep 1000"))
            server.await_held(ATTEMPT, is_running)
            server.order(start_run("sleep 1000", attempt="job-2.1"))
            refused = server.await_report(lambda report: isinstance(report, OrderRefused))
            assert refused.text == f"{ATTEMPT} still runs on n1"

    def test_a_log_is_read_by_order(self, server, tmp_path):
        """Logs stay on the node until a part is asked for, from its beginning or its end."""
        with agent(server, tmp_path):
            server.order(start_run("echo one; echo two"))
            server.await_held(ATTEMPT, lambda held: held.state == "ended")
            server.order(
                ReadLog(id="r1", term=1, attempt=ATTEMPT, rank=0, limit_bytes=4),
                ReadLog(id="r2", term=1, attempt=ATTEMPT, rank=0, offset=-4),
                ReadLog(id="r3", term=1, attempt=ATTEMPT, rank=7),
            )
            parts = {
                name: server.await_report(
                    lambda report, name=name: isinstance(report, LogPart) and report.order == name
                )
                for name in ("r1", "r2", "r3")
            }
            assert (parts["r1"].data, parts["r1"].next_offset, parts["r1"].size) == (b"one\n", 4, 8)
            assert (parts["r2"].data, parts["r2"].ended) == (b"two\n", True)
            assert parts["r3"].text == f"rank 7 of {ATTEMPT} never began here"


class TestDeaths:
    def test_a_killed_agent_finds_its_ranks_again(self, server, tmp_path):
        """Ranks run on while the agent is dead, and end under the eyes of the next one."""
        with agent(server, tmp_path) as one:
            server.order(start_run("sleep 3; echo done"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            one.kill()
            assert alive(pid)
            one.start()
            held = server.await_held(ATTEMPT, lambda held: held.state == "ended")
            assert [(rank.pid, rank.code) for rank in held.ranks] == [(pid, 0)]

    def test_what_ended_while_the_agent_was_dead_is_told(self, server, tmp_path):
        """Exit codes wait on the disk for the next agent."""
        with agent(server, tmp_path) as one:
            server.order(start_run("sleep 0.5; exit 7"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            one.kill()
            until(lambda: not alive(pid), "the rank's end")
            one.start()
            assert server.await_held(ATTEMPT, lambda held: held.state == "ended").ranks[0].code == 7

    def test_a_killed_runner_is_an_infrastructure_failure(self, server, tmp_path):
        """When the runner is killed nothing is left of its ranks, and the agent says so."""
        with agent(server, tmp_path) as one:
            server.order(start_run("setsid sleep 1000 & echo $! > $ARGOSY_FOLDER/left; sleep 1000"))
            server.await_held(ATTEMPT, is_running)
            folder = one.folder / "services" / "s1" / "attempts" / ATTEMPT / "0"
            left = int(until(lambda: (folder / "left").exists() and (folder / "left").read_text(), "the child"))
            os.kill(AttemptFolder(folder).runner_pid(), signal.SIGKILL)
            held = server.await_held(ATTEMPT, lambda held: held.state == "ended")
            assert (held.blame, held.text) == ("infrastructure", "its runner was killed, and its ranks with it")
            assert not alive(left)

    def test_an_ended_agent_leaves_its_ranks(self, server, tmp_path):
        """SIGTERM ends the agent, which says that it leaves; its ranks go on."""
        with agent(server, tmp_path) as one:
            server.order(start_run("sleep 1000"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            one.process.terminate()
            assert one.process.wait(30) == 0
            assert server.talked()[-1].leaving
            assert alive(pid)

    def test_an_agent_whose_server_ends_stays_for_its_ranks(self, tmp_path):
        """Told to leave, it keeps the lease as long as ranks run, without a server, and ends when they have."""
        server = TalkServer(lease_s=0.8)
        with agent(server, tmp_path) as one:
            server.order(start_run("sleep 2; exit 7"))
            server.await_held(ATTEMPT, is_running)
            server.close()
            one.process.send_signal(LEAVE_SIGNAL)
            assert one.process.wait(30) == 0
            folder = AttemptFolder(one.folder / "services" / "s1" / "attempts" / ATTEMPT / "0")
            assert [rank.code for rank in folder.held().ranks] == [7]

    def test_the_next_server_has_it_stay(self, tmp_path):
        """What one server's end asked for is void once a server of another term answers."""
        server = TalkServer()
        with agent(server, tmp_path) as one:
            server.order(start_run("sleep 1000"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            server.close()
            one.process.send_signal(LEAVE_SIGNAL)
            again = TalkServer(server.port)
            again.term = 2
            again.await_held(ATTEMPT, is_running)
            again.order(StopAttempt(id="stop", term=2, attempt=ATTEMPT, generation=0, reason="test", grace_s=0.0))
            again.await_held(ATTEMPT, lambda held: held.state == "stopped")
            told = len(again.talked())
            until(lambda: len(again.talked()) > told, "another talk")
            assert not alive(pid)
            assert one.process.poll() is None
            again.close()


class TestLease:
    def test_a_dead_server_never_ends_a_rank(self, tmp_path):
        """Refused connections prove that no server lives on this host: the lease doesn't run out."""
        server = TalkServer(lease_s=1.5)
        with agent(server, tmp_path):
            server.order(start_run("sleep 6; echo done"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            server.close()
            until(lambda: not alive(pid), "the rank's end")
            again = TalkServer(server.port)
            held = again.await_held(ATTEMPT, lambda held: held.state == "ended")
            again.close()
            assert [rank.code for rank in held.ranks] == [0]

    def test_silence_parks_the_ranks(self, tmp_path):
        """A server that listens and doesn't answer may live elsewhere: when the lease runs out the ranks are killed."""
        server = TalkServer(lease_s=2.0)
        with agent(server, tmp_path):
            server.order(start_run("sleep 1000"))
            pid = server.await_held(ATTEMPT, is_running).ranks[0].pid
            server.status = 500
            until(lambda: not alive(pid), "parking")
            server.status = 200
            held = server.await_held(ATTEMPT, lambda held: held.state == "stopped")
            assert (held.parked, held.blame) == (True, "infrastructure")
        server.close()
