"""The agent's loop between an engine and a fork server that the test plays itself."""

import os
import signal
import socket
import threading
import time

import pytest

from argosy.agent import agent as agent_module
from argosy.agent.agent import Agent
from argosy.agent.ranks import RankServer
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import (
    ForkRank,
    LoadLaunch,
    RankEnded,
    ServerFailed,
    ServerReady,
    SignalRanks,
    StartRanks,
    StopRanks,
    read_request,
    read_upward,
    write_line,
)
from argosy.contracts.messages import AgentReady, Failed, Note, RankExited
from support.launches import PATIENCE_S, launch

REPORTS_MAX = 1000


class Stage:
    """An agent in a thread; the test speaks as its engine and as its fork server."""

    def __init__(self, folder):
        self.folder = folder
        path = folder / "fork"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        self.engine, near = socket.socketpair()
        server = RankServer(path, 1.0)
        self.server, _ = listener.accept()
        listener.close()
        for one in (self.engine, self.server):
            one.settimeout(PATIENCE_S)
        self._up, self._requests, self._pipes = [], [], []
        self._up_lines, self._request_lines = LineBuffer(), LineBuffer()
        self.code = None
        agent = Agent("north-1", near, server, time.monotonic())
        self.thread = threading.Thread(target=lambda: setattr(self, "code", agent.run()), daemon=True)
        self.thread.start()

    def tell(self, message):
        """Speak as the engine."""
        self.engine.sendall(write_line(message))

    def start(self, *ranks, generation=0):
        """Ask the agent to start ranks and give the pipes they'd report on."""
        self.tell(StartRanks(launch=launch(generation=generation), ranks=ranks, log_directory=str(self.folder)))
        assert isinstance(self.request(), LoadLaunch)
        return {self.request().rank: self._pipes.pop(0) for _ in ranks}

    def reply(self, message):
        """Speak as the fork server."""
        self.server.sendall(write_line(message))

    def heard(self):
        """Return the next message that the engine gets."""
        while not self._up:
            self._up += [read_upward(line) for line in self._up_lines.feed(self.engine.recv(1 << 16))]
        return self._up.pop(0)

    def request(self):
        """Return the next request that the fork server gets."""
        while not self._requests:
            data, descriptors, _, _ = socket.recv_fds(self.server, 1 << 16, 16)
            for report, log in zip(descriptors[::2], descriptors[1::2], strict=True):
                os.close(log)
                self._pipes.append(report)
            self._requests += [read_request(line) for line in self._request_lines.feed(data)]
        return self._requests.pop(0)

    def fill(self, pipe):
        """Write reports until the pipe is full, then see the agent once around its loop; gives how many went in."""
        count = 0
        try:
            while count < REPORTS_MAX:
                os.write(pipe, write_line(Note(text="x" * 4000)))
                count += 1
        except BlockingIOError:
            pass
        for _ in range(2):  # when the second is answered, the round that saw the first has read what it would read
            self.tell(StopRanks(reason="test", grace_s=3600.0))
            assert self.request() == SignalRanks(number=signal.SIGTERM)
        return count

    def leave(self):
        """End as the engine and return the agent's exit code."""
        self.engine.close()
        self.thread.join(PATIENCE_S)
        return self.code


@pytest.fixture
def stage(tmp_path):
    """Give an agent between two ends that the test holds."""
    made = Stage(tmp_path)
    yield made
    made.leave()
    made.server.close()


class TestAgent:
    def test_ready_once_the_server_is(self, stage):
        """AgentReady follows the fork server's word, with the node's name."""
        stage.reply(ServerReady(pid=1))
        message = stage.heard()
        assert isinstance(message, AgentReady)
        assert (message.node, message.pid) == ("north-1", os.getpid())

    def test_reports_come_before_the_exit(self, stage):
        """What a rank wrote before it ended is passed on first, stamped with its own number."""
        pipe = stage.start(7, generation=2)[7]
        os.write(pipe, write_line(Note(rank=3, text="first")) + write_line(Note(text="second")))
        stage.reply(RankEnded(rank=7, code=3))
        messages = [stage.heard() for _ in range(3)]
        assert [getattr(message, "text", None) for message in messages] == ["first", "second", None]
        assert messages[2] == RankExited(node="north-1", generation=2, rank=7, code=3)
        assert {(message.rank, message.generation) for message in messages} == {(7, 2)}
        os.close(pipe)

    def test_a_rank_may_close_its_pipe_and_live(self, stage):
        """A rank that hangs up its reports neither ends nor keeps the agent busy."""
        os.close(stage.start(0)[0])
        stage.reply(ServerReady(pid=1))
        assert isinstance(stage.heard(), AgentReady)
        stage.reply(RankEnded(rank=0, code=0))
        assert isinstance(stage.heard(), RankExited)

    def test_too_long_a_report_is_dropped(self, stage):
        """A report over 1 MiB is a warning; the next one comes through."""
        pipe = stage.start(0)[0]
        writer = threading.Thread(
            target=os.write, args=(pipe, b"x" * (3 << 19) + b"\n" + write_line(Note(text="good"))), daemon=True
        )
        writer.start()
        texts = [stage.heard().text]
        while texts[-1] != "good":
            texts.append(stage.heard().text)
        assert "longer than 1,048,576 bytes" in texts[0]
        writer.join(PATIENCE_S)
        os.close(pipe)

    def test_a_fork_that_fails_is_told(self, stage):
        """The fork server's refusal is the rank's failure and its end."""
        stage.start(0)
        stage.reply(ServerFailed(rank=0, text="can't fork rank 0: no memory"))
        failed, exited = stage.heard(), stage.heard()
        assert isinstance(failed, Failed)
        assert (failed.rank, failed.text) == (0, "can't fork rank 0: no memory")
        assert (exited.rank, exited.code) == (0, 5)

    def test_an_older_launch_is_dropped(self, stage):
        """A launch of a generation that is over starts nothing."""
        stage.start(0, generation=3)
        stage.reply(RankEnded(rank=0, code=0))
        assert isinstance(stage.heard(), RankExited)
        stage.tell(StartRanks(launch=launch(generation=2), ranks=(0,), log_directory=str(stage.folder)))
        assert "dropped a launch of generation 2; it is in generation 3" in stage.heard().text

    def test_a_launch_over_running_ranks_ends_the_agent(self, stage):
        """Starting ranks twice is a broken engine: the agent kills what it has and says why."""
        stage.start(0)
        stage.tell(StartRanks(launch=launch(generation=1), ranks=(0,), log_directory=str(stage.folder)))
        failed, exited = stage.heard(), stage.heard()
        assert "told to start ranks while these still run: 0" in failed.text
        assert (exited.rank, exited.code) == (0, -9)
        assert stage.leave() == 5

    def test_stop_is_term_then_kill(self, stage):
        """SIGTERM goes out at once, SIGKILL when the grace is over."""
        stage.start(0)
        stage.tell(StopRanks(reason="test", grace_s=0.01))
        assert stage.request() == SignalRanks(number=signal.SIGTERM)
        assert stage.request() == SignalRanks(number=signal.SIGKILL)

    def test_no_kill_when_ranks_heeded(self, stage):
        """Ranks that ended within the grace are not killed, nor are those of the next launch."""
        stage.start(0)
        stage.tell(StopRanks(reason="test", grace_s=3600.0))
        assert stage.request() == SignalRanks(number=signal.SIGTERM)
        stage.reply(RankEnded(rank=0, code=-15))
        assert isinstance(stage.heard(), RankExited)
        stage.start(0, generation=1)

    def test_a_log_that_cannot_be_opened(self, stage):
        """A rank without a log isn't started; it and those after it are told as ended."""
        (stage.folder / "rank-1.log").mkdir()
        stage.tell(StartRanks(launch=launch(), ranks=(0, 1, 2), log_directory=str(stage.folder)))
        assert isinstance(stage.request(), LoadLaunch)
        assert stage.request() == ForkRank(rank=0)
        failed, *exited = (stage.heard() for _ in range(3))
        assert "rank 1: can't write its log" in failed.text
        assert [(message.rank, message.code) for message in exited] == [(1, 5), (2, 5)]

    def test_the_engine_leaves(self, stage):
        """When the engine is gone the agent hangs up on the fork server and ends in peace."""
        stage.start(0)
        assert stage.leave() == 0
        assert stage.server.recv(1) == b""

    def test_the_fork_server_leaves(self, stage):
        """When the fork server is gone all ranks are reported dead, with the reason first."""
        stage.start(0, 1)
        stage.server.close()
        failed, *exited = (stage.heard() for _ in range(3))
        assert "node north-1: the fork server's process for it ended" in failed.text
        assert [(message.rank, message.code) for message in exited] == [(0, -9), (1, -9)]
        assert stage.leave() == 5

    def test_ranks_wait_while_the_engine_is_behind(self, stage, monkeypatch):
        """Reports stay in their pipe while the outbox is over its bound, and nothing is lost."""
        monkeypatch.setattr(agent_module, "OUTBOX_BYTES", 1000)
        pipe = stage.start(0)[0]
        os.set_blocking(pipe, False)
        count = 0
        while (written := stage.fill(pipe)) and count < REPORTS_MAX:
            count += written
        assert count < REPORTS_MAX
        assert [stage.heard().text for _ in range(count)] == ["x" * 4000] * count
        os.close(pipe)
