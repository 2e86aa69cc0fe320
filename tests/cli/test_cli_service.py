"""Commands of the service: what they send, what they print, and what they refuse before anybody is asked."""

import contextlib
import io
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.cli import job_cancel, job_logs, up
from argosy.cli import main as cli
from argosy.cli.dry_run import show_dry_run
from argosy.cli.handing_in import submission_of, upload
from argosy.cli.job_explain import show
from argosy.cli.job_list import jobs_table, row_of
from argosy.cli.job_logs import text_of
from argosy.cli.job_show import show_attempt
from argosy.cli.nodes import state_of
from argosy.cli.remote import moment, plain, span
from argosy.cli.submit import settled, words_of
from argosy.cli.up import alive, read_address, take_turn
from argosy.cli.waiting import Waiting
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.server import models as m
from argosy.server.place import Card

DAY_US = 86_400_000_000


def job(**more: Any) -> m.JobView:
    """Show a job."""
    body = {"id": "job-7", "name": "j", "queue": "q", "owner": "mary", "kind": "run", "state": "waiting"}
    return m.JobView.model_validate(body | {"submitted_us": 1, "since_us": 1} | more)


def node(**more: Any) -> m.NodeView:
    """Show a node."""
    body = {"name": "n-1", "chip_class": "n/a", "site": "n", "chips": 8, "observed": "up", "intent": "open"}
    return m.NodeView.model_validate(body | {"trust": "ok"} | more)


def with_client(monkeypatch: pytest.MonkeyPatch, module: Any, **calls: Any) -> None:
    """Let a command speak to a client that answers these calls alone."""
    client = SimpleNamespace(**calls)
    monkeypatch.setattr(module, "connect", lambda _server: contextlib.nullcontext(client))


class TestTable:
    def test_commands_need_no_server_to_be_listed(self) -> None:
        """`argosy --help` names them all and loads none of their libraries."""
        code = "import sys; from argosy.cli.main import main; main(['--help']); sys.exit('httpx' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0
        for name in ("up", "down", "submit", "jobs", "explain", "cordon", "queues", "events", "report", "token"):
            assert f" {name} " in done.stdout

    def test_a_missing_library_is_told(self, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        """Without the extra, the command says how to install it."""

        def missing(_name: str) -> Any:
            raise ModuleNotFoundError("No module named 'httpx'", name="httpx")

        monkeypatch.setattr(cli, "import_module", missing)
        assert cli.main(["jobs"]) == InfrastructureError.exit_code
        assert "argosy jobs needs httpx, which isn't installed: pip install 'argosy[server]'" in capsys.readouterr().err

    def test_without_a_service_the_way_is_shown(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
    ) -> None:
        """A command that finds none says what begins one."""
        monkeypatch.setenv("ARGOSY_STATE", str(tmp_path))
        monkeypatch.delenv("ARGOSY_SERVER", raising=False)
        assert cli.main(["jobs"]) == InfrastructureError.exit_code
        assert f"no service runs in {tmp_path}; `argosy up` begins one" in capsys.readouterr().err
        assert cli.main(["down"]) == InfrastructureError.exit_code

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["jobs", "--watch", "--json"], "--watch and --json don't go together"),
            (["jobs", "--state", "runing"], "--state runing: write one of waiting, reserved"),
            (["up", "--listen", "here"], "--listen here: write a port"),
            (["up", "--listen", "99999"], "--listen 99999: write a port"),
            (["drain", "n", "--deadline", "99999999h"], "deadline_s: Input should be less than or equal to 1000000000"),
            (["cordon", "n", "--reason", "x" * 1001], "reason: String should have at most 1000 characters"),
            (["token", "create", "x" * 64], "owner: String should have at most 63 characters"),
            (["status", "--server", "here:1"], "server: got 'here:1'; write a URL"),
        ],
    )
    def test_contradictions_are_refused_first(self, arguments: list[str], text: str, capsys: Any) -> None:
        """Before anybody is asked."""
        assert cli.main(arguments) == BadInputError.exit_code
        assert text in capsys.readouterr().err

    def test_a_folder_that_can_not_be_written_is_told(self, tmp_path: Path, capsys: Any) -> None:
        """With its path, not as a bug."""
        (tmp_path / "server.log").mkdir()
        assert cli.main(["up", "--state", str(tmp_path)]) == InfrastructureError.exit_code
        assert f"{tmp_path}/server.log: can't be written: " in capsys.readouterr().err

    def test_a_server_that_is_not_ready_in_time_is_ended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        """It does not come up after all, when nobody waits for it any more."""
        monkeypatch.setattr(up, "READY_S", 0.0)
        assert cli.main(["up", "--state", str(tmp_path), "--listen", "0"]) == InfrastructureError.exit_code
        assert "the service is not ready after 0 s and was ended" in capsys.readouterr().err
        assert not up.is_used(tmp_path)

    @pytest.mark.parametrize(("said", "stage"), [("", "1 of 2"), (f"INFO {up.LOADED}\n", "2 of 2")])
    def test_what_a_server_does_while_it_starts_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, stage: str
    ) -> None:
        """Loading, and then what takes long after an install: compiling."""
        (tmp_path / up.LOG_NAME).write_text(f"before{said}")
        told = Waiting()
        cards = iter([None, Card(url="u", pid=7)])
        monkeypatch.setattr(up, "read_card", lambda _folder: next(cards))
        up.await_ready(SimpleNamespace(pid=7, poll=lambda: None), tmp_path, len("before"), told)
        assert told.what.startswith(f"the service is starting, {stage}: ")

    def test_a_server_that_ends_is_told_by_its_last_words(self, tmp_path: Path) -> None:
        """What it said of its progress is no reason."""
        (tmp_path / up.LOG_NAME).write_text(f"INFO {up.LOADED}\nno room\n")
        ended = SimpleNamespace(pid=7, poll=lambda: 5)
        with pytest.raises(InfrastructureError, match=r"^no room$"):
            up.await_ready(ended, tmp_path, 0, Waiting())

    def test_like_code_has_the_same_id(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whenever it is packed, so that one key with one job stays one request."""
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "a.py").write_text("print(1)")
        packed: list[bytes] = []

        def put_bundle(path: Path) -> m.BundleView:
            packed.append(path.read_bytes())
            return m.BundleView(id="0" * 64, size_bytes=len(packed[-1]))

        for now_s in (1e9, 2e9):
            monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s)
            upload(SimpleNamespace(put_bundle=put_bundle), tmp_path / "code")
        assert packed[0] == packed[1]
        with tarfile.open(fileobj=io.BytesIO(packed[0])) as archive:
            assert archive.getnames() == [".", "./a.py"]


class TestPlain:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a\x1b[2Jb", "a?[2Jb"),
            ("a\nb\tc", "a b c"),
            ("\u202eevil", "?evil"),
            ("\u2028x", "?x"),
            ("gr\u00fcn", "gr\u00fcn"),
        ],
    )
    def test_nothing_steers_the_terminal(self, text: str, shown: str) -> None:
        """What a job printed can't move the cursor, turn the text around or begin a line of its own."""
        assert plain(text) == shown


class TestAddress:
    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("7070", ("127.0.0.1", 7070)),
            ("0.0.0.0:80", ("0.0.0.0", 80)),
            ("[::1]:5", ("::1", 5)),
            (":9", ("127.0.0.1", 9)),
        ],
    )
    def test_read(self, text: str, address: tuple[str, int]) -> None:
        """A port alone is this host's own."""
        assert read_address(text) == address

    def test_a_process_that_ended_is_not_alive(self) -> None:
        """Also one that nobody waited for yet."""
        process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read()
        process.wait()
        assert not alive(process.pid)


class TestSubmission:
    def test_the_models_config_comes_along(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server can't read the submitter's files; a named model needs no text."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
        train = "train: {sequence_length: 8, global_batch_size: 2, steps: 1}"
        (tmp_path / "job.yaml").write_text(f"name: t\nmodel: ./model\ndata: {{files: a.txt}}\n{train}\n")
        made = submission_of(tmp_path / "job.yaml", [])
        assert (made.model_config_text, made.folder) == ('{"model_type": "llama"}', str(tmp_path))
        assert submission_of(tmp_path / "job.yaml", ["model=tiny"]).model_config_text == ""

    def test_mistakes_are_told_here(self, tmp_path: Path) -> None:
        """A bad file never reaches the server."""
        (tmp_path / "job.yaml").write_text("kind: run\ncomand: x\n")
        with pytest.raises(BadInputError, match=r"job.yaml:2:1  comand: unknown key; did you mean command\?"):
            submission_of(tmp_path / "job.yaml", [])

    def test_code_is_packed_alike_whoever_owns_it(self, tmp_path: Path) -> None:
        """Files and links go along; version control and caches don't."""
        code = tmp_path / "code"
        (code / ".git").mkdir(parents=True)
        (code / ".git" / "config").write_text("x")
        (code / "train.py").write_text("print(1)")
        names: list[str] = []

        class Client:
            def put_bundle(self, path: Path) -> m.BundleView:
                """Look into what is handed in."""
                with tarfile.open(path) as archive:
                    names.extend(archive.getnames())
                    assert {member.uid for member in archive.getmembers()} == {0}
                return m.BundleView(id="a" * 64, size_bytes=1)

        client: Any = Client()
        assert upload(client, code) == "a" * 64
        assert sorted(names) == [".", "./train.py"]
        with pytest.raises(BadInputError, match="nothing is no folder here"):
            upload(client, Path("nothing"))


class TestWords:
    def test_what_becomes_of_a_job(self) -> None:
        """It starts, waits with its code, or has ended."""
        assert words_of(job(attempt="job-7.1", state="preparing", nodes=["n-1", "n-2"])) == "starts on n-1, n-2"
        assert words_of(job(why="NO_QUOTA")) == "waits: NO_QUOTA; `argosy explain job-7` says why"
        assert words_of(job(state="ended", reason="done", ended_us=2)) == "ended: done"

    def test_waiting_ends_once_it_is_known(self) -> None:
        """While the planner has not answered, it is asked again."""
        answers = iter([job(why="NO_OPTIONS"), job(why="NEXT_PASS"), job(why="NO_CAPACITY")])

        class Client:
            def job(self, _name: str) -> m.JobView:
                """Give the next answer."""
                return next(answers)

        client: Any = Client()
        assert settled(client, job(), 0.0, 30.0).why == "NO_CAPACITY"

    @pytest.mark.parametrize(
        ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1:00"), (90_000, "1 d 1:00:00")]
    )
    def test_durations(self, seconds: float, text: str) -> None:
        """Short ones in tenths, long ones as a clock shows them."""
        assert span(seconds) == text

    def test_a_row_of_jobs(self) -> None:
        """Steps and loss of one that trains, how one ended, what one waits for."""
        progress = {"step": 12, "steps": 40, "loss": 3.14159, "at_us": 1}
        running = job(state="running", kind="train", chips={"a": 4}, borrows=True, progress=progress)
        assert row_of(running)["what"] == "step 12 of 40, loss 3.142, borrows"
        assert row_of(running)["chips"] == "4 a"
        ended = row_of(job(state="ended", reason="failed_user", ended_us=DAY_US + 1))
        assert (ended["what"], ended["time"]) == ("failed_user", "1 d 0:00:00")
        assert "no jobs" in str(jobs_table(m.JobList(jobs=[]), 80))

    def test_a_node_in_words(self) -> None:
        """Whatever keeps jobs away stands beside what is observed."""
        assert state_of(node()) == "up"
        assert state_of(node(intent="draining", trust="quarantined", reason="fan")) == "up, draining, quarantined (fan)"
        late = node(intent="draining", empty_by_us=DAY_US, reason="disk")
        assert state_of(late) == f"up, draining by {moment(DAY_US)} (disk)"

    def test_a_line_of_a_log(self) -> None:
        """With its rank where there are several."""
        line = m.LogLine(rank=3, node="n", offset=1, text="hello")
        assert text_of(line, True).split() == ["-", "rank", "3", "hello"]
        assert text_of(line, False).split() == ["-", "hello"]


class TestScreens:
    def test_an_explanation(self, capsys: Any) -> None:
        """Needs, blockers, the likely start and what would help, then the story."""
        found = m.Explanation(
            job="job-7",
            name="j",
            queue="q",
            state="waiting",
            code="FRAGMENTATION",
            text="too far apart",
            at_us=1,
            since_us=1,
            needs=[m.NeedView(option="o", pool="n/a", nodes=4, near="rack", free=5, largest=3, domain="r", owned=9)],
            blockers=[m.BlockerView(job="job-3", name="other", ends_us=5)],
            ahead=2,
            start_p50_us=5,
            start_p90_us=6,
            change="now, if topology: site",
            story=[m.ChapterView(seq=1, at_us=1, event="JobSubmitted", did=["job.submitted: j"])],
        )
        show(found)
        shown = capsys.readouterr().out
        assert "4 n/a nodes within one rack; 5 of 9 are free" in shown
        assert "other (job-3), ends by" in shown
        assert "2 jobs of its queue" in shown
        assert "now, if topology: site" in shown
        assert "job.submitted: j" in shown

    def test_a_start_that_nobody_can_foretell(self, capsys: Any) -> None:
        """Why there is no time stands where the time would."""
        about = {"job": "job-7", "name": "j", "queue": "q", "state": "waiting", "at_us": 1, "since_us": 1}
        show(m.Explanation.model_validate(about | {"start_text": "first (job-3) has no time limit"}))
        assert "nobody can tell when: first (job-3) has no time limit" in capsys.readouterr().out

    def test_a_dry_run(self, capsys: Any) -> None:
        """Options with what they cost, and whom it would stop."""
        offer = m.OfferView(option="o", nodes={"n/a": 2}, chips=16, tokens_per_second=1000.0, emulated=True)
        show_dry_run(m.DryRun(name="j", queue="q", offers=[offer], state="waiting", why="RECLAIMING", preempts=["b"]))
        shown = capsys.readouterr().out
        assert "~1,000" in shown
        assert "$ per 1T tokens" in shown
        assert "wait: RECLAIMING" in shown
        assert "stopping" in shown

    def test_a_refusal_is_told_once(self, capsys: Any) -> None:
        """The error that follows says why."""
        show_dry_run(m.DryRun(name="j", queue="q", offers=[], state="refused", text="no queue q"))
        shown = capsys.readouterr().out
        assert "be refused" in shown
        assert "no queue q" not in shown

    def test_a_job_that_ended_is_not_cancelled(self, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        """It is told apart from one that ends now."""
        done = job(state="ended", reason="done")
        with_client(monkeypatch, job_cancel, job=lambda _name: done, cancel=lambda _name: done)
        assert cli.main(["cancel", "j"]) == 0
        assert capsys.readouterr().out == "job-7 (j) had ended before: done\n"

    def test_ranks_that_wrote_nothing_are_told_of(self, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        """On stderr, for standard output is the log."""
        with_client(monkeypatch, job_logs, logs=lambda _job, **_more: iter(()))
        assert cli.main(["logs", "j"]) == 0
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "its ranks wrote nothing; `argosy show j` tells how far it came" in shown.err

    def test_predicted_stands_beside_measured(self, capsys: Any) -> None:
        """Figures that neither has are left out; emulated ones are marked."""
        attempt = m.AttemptView(
            id="job-7.1",
            generation=2,
            nodes=["n-1"],
            chips=8,
            began_us=1,
            predicted=m.Figures(step_ms=10.0, emulated=True),
            measured=m.Figures(step_ms=11.0, wait_s=2.0, cost=0.25, loss=1.5, steps=3),
            wait_text="first (job-3) has no time limit",
        )
        show_attempt(attempt)
        shown = capsys.readouterr().out
        assert "cost, $" in shown
        assert "~0.25" in shown
        assert "not foretold: first (job-3) has no time limit" in shown
        assert "~10" in shown
        assert "~11" in shown
        assert "1.500 after 3 steps" in shown
        assert "memory" not in shown


class TestTurn:
    def test_one_up_at_a_time_begins_a_service(self, tmp_path: Path) -> None:
        """Another one of the same folder is refused in one line, without words of the first one's server."""
        text = r"another `argosy up` begins a service in .* at this moment"
        with take_turn(tmp_path), pytest.raises(InfrastructureError, match=text):
            take_turn(tmp_path)
        take_turn(tmp_path).close()
