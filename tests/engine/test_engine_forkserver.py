"""The fork server by itself: its command line, what it loads, and how a rank's entry is run."""

import os
import subprocess
import sys

import pytest

from argosy.agent.wire import dial
from argosy.contracts.errors import BadInputError, InfrastructureError, UserCodeError
from argosy.contracts.launching import ServerFailed, ServerListening, ServerReady, read_reply
from argosy.contracts.messages import Failed
from argosy.train.forkserver import load_entry
from argosy.train.rankprocess import limit_threads, run_entry
from support.launches import launch


def start(path, *arguments, stdin=subprocess.PIPE):
    """Start a fork server without torch; its standard input is a pipe."""
    command = [sys.executable, "-m", "argosy.train.forkserver", str(path), "--entry", "support.fake_ranks:train"]
    return subprocess.Popen([*command, "--preload", "", *arguments], stdin=stdin, stdout=subprocess.PIPE)


@pytest.mark.slow
class TestForkServer:
    def test_it_listens_before_it_is_ready(self, tmp_path):
        """Agents may connect while modules load; both are said on standard output."""
        with start(tmp_path / "fork") as server:
            said = [read_reply(server.stdout.readline()) for _ in range(2)]
            server.communicate()
        assert [type(message) for message in said] == [ServerListening, ServerReady]

    def test_it_ends_with_its_standard_input(self, tmp_path):
        """Whoever started it needs only to die: the socket goes, and the folder when it was the server's."""
        folder = tmp_path / "private"
        folder.mkdir()
        with start(folder / "fork", "--owns-directory") as server:
            server.stdout.readline()
            server.communicate()
        assert server.returncode == 0
        assert not folder.exists()

    def test_sigterm_ends_it(self, tmp_path):
        """SIGTERM is an orderly end."""
        with start(tmp_path / "fork") as server:
            [server.stdout.readline() for _ in range(2)]
            server.terminate()
            assert server.wait(60) == 0
        assert not (tmp_path / "fork").exists()

    def test_one_that_lingers_stays_for_its_children(self, tmp_path):
        """With --linger the end of standard input waits for those that are still connected, and serves them."""
        with start(tmp_path / "fork", "--linger") as server:
            [server.stdout.readline() for _ in range(2)]
            with dial(f"unix:{tmp_path / 'fork'}", 60.0) as connection:
                connection.recv(1000)
                server.stdin.close()
                with pytest.raises(subprocess.TimeoutExpired):
                    server.wait(1.0)
                with dial(f"unix:{tmp_path / 'fork'}", 60.0) as other:
                    assert b"server_ready" in other.recv(1000)
            assert server.wait(60) == 0

    def test_a_new_hold_keeps_one_that_lingers(self, tmp_path):
        """Who takes hold of the pipe again while ranks run keeps the server beyond their end."""
        os.mkfifo(tmp_path / "life")
        reader = os.open(tmp_path / "life", os.O_RDONLY | os.O_NONBLOCK)
        hold = os.open(tmp_path / "life", os.O_WRONLY)
        with start(tmp_path / "fork", "--linger", stdin=reader) as server:
            [server.stdout.readline() for _ in range(2)]
            with dial(f"unix:{tmp_path / 'fork'}", 60.0) as connection:
                connection.recv(1000)
                os.close(hold)
                with pytest.raises(subprocess.TimeoutExpired):
                    server.wait(0.6)
                hold = os.open(tmp_path / "life", os.O_WRONLY | os.O_NONBLOCK)
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(1.5)
            os.close(hold)
            assert server.wait(60) == 0
        os.close(reader)

    def test_a_path_that_is_taken(self, tmp_path):
        """A path that exists is refused, and left alone."""
        (tmp_path / "fork").write_text("mine")
        with start(tmp_path / "fork") as server:
            message = read_reply(server.communicate()[0])
        assert isinstance(message, ServerFailed)
        assert "can't listen on" in message.text
        assert (tmp_path / "fork").read_text() == "mine"
        assert server.returncode == 5


class TestLoadEntry:
    def test_an_entry_is_found(self):
        """`module:function` gives the function."""
        assert load_entry("support.fake_ranks:train", ("json",)).__name__ == "train"

    @pytest.mark.parametrize(
        ("entry", "text"),
        [
            ("no_such_module:run", "No module named 'no_such_module'"),
            ("argosy.no_such:run", r"No module named 'argosy\.no_such'"),
            ("json:no_such", "module json has no function 'no_such'"),
            ("json", "module json has no function ''"),
            ("json:__doc__", "module json has no function '__doc__'"),
        ],
    )
    def test_a_wrong_entry_is_named(self, entry, text):
        """What can't be found is said with what is expected."""
        with pytest.raises(BadInputError, match=rf"entry '{entry}': {text}.*expected module:function"):
            load_entry(entry, ())

    def test_a_missing_library_names_the_extra(self):
        """Without torch the answer is the command that installs it."""
        with pytest.raises(InfrastructureError, match=r"needs no_torch, .*: pip install 'argosy\[train\]'"):
            load_entry("json:loads", ("no_torch.distributed",))


class TestRunEntry:
    @staticmethod
    def run(action):
        """Run an entry that does this; returns its code and reports."""
        reports = []
        return run_entry(lambda *_: action(), launch(), 0, reports.append), reports

    @staticmethod
    def throw(error):
        """Make an action that raises."""

        def action():
            raise error

        return action

    @pytest.mark.parametrize(("value", "code"), [(0, 0), (7, 7), (None, 0)])
    def test_the_result_is_the_code(self, value, code):
        """What an entry returns is its exit code; nothing is success."""
        assert self.run(lambda: value) == (code, [])

    @pytest.mark.parametrize(
        ("error", "code", "blame", "text"),
        [
            (UserCodeError("bad corpus"), 4, "user", "bad corpus"),
            (
                OSError(28, "No space left on device"),
                5,
                "infrastructure",
                "OSError: [Errno 28] No space left on device",
            ),
            (KeyError("head"), 1, "argosy", "KeyError: 'head'"),
        ],
    )
    def test_an_exception_is_reported(self, error, code, blame, text, capsys):
        """An escaped exception becomes Failed with a traceback, which also goes to the log."""
        got, reports = self.run(self.throw(error))
        assert got == code
        assert [(type(r), r.blame, r.text, r.exit_code) for r in reports] == [(Failed, blame, text, code)]
        assert "Traceback" in reports[0].traceback
        assert text.split(":")[0] in capsys.readouterr().err

    @pytest.mark.parametrize(("code", "expected"), [(3, 3), (None, 0), ("why", 1)])
    def test_sys_exit_is_heeded(self, code, expected):
        """An entry may leave by sys.exit."""
        assert self.run(self.throw(SystemExit(code))) == (expected, [])


class TestThreads:
    def test_zero_changes_nothing(self, monkeypatch):
        """Without a bound the environment stays as it is."""
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        limit_threads(0)
        assert "OMP_NUM_THREADS" not in os.environ

    def test_torch_is_bounded(self, monkeypatch):
        """Where torch is loaded its own setting is changed too."""

        class Torch:
            def set_num_threads(self, count):
                self.count = count

        torch = Torch()
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setenv("OMP_NUM_THREADS", "9")
        limit_threads(2)
        assert torch.count == 2
