"""The runner: real processes from their start to their end, and who ends them when."""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import time

import msgspec
import pytest

from argosy.agent.crew import NOTES_MAX
from argosy.agent.crews import make_crew
from argosy.agent.folder import Lease, StopWish
from argosy.contracts.errors import BadInputError
from argosy.contracts.job import HangSpec, LogPattern
from argosy.contracts.launching import read_upward
from argosy.contracts.talk import Meeting
from support.agents import alive, prepared, run_to_end, runner
from support.talk_server import start_run, until

pytestmark = pytest.mark.slow


def held_when(folder, test):
    """Wait until what is held passes a test."""
    return until(lambda: (held := folder.held()) is not None and test(held) and held, "what is held")


class TestEnds:
    def test_codes_of_ranks_are_kept(self, tmp_path):
        """Each rank's exit status is told, and a node whose ranks have all ended holds none."""
        held = run_to_end(prepared(tmp_path, start_run("exit $RANK", processes_per_node=2)))
        assert held.state == "ended"
        assert [rank.code for rank in held.ranks] == [0, 1]

    @pytest.mark.parametrize(
        ("said", "text"),
        [
            ("Traceback:\nValueError: no such layer\nbye", "ValueError: no such layer"),
            ("torch.cuda.OutOfMemoryError: 2 GB\nChildFailedError: \n====", "torch.cuda.OutOfMemoryError: 2 GB"),
            ("a\nb\nc\nd\nno such file", "b\nc\nd\nno such file"),
            ("", ""),
        ],
    )
    def test_the_end_of_a_log_speaks_for_its_rank(self, tmp_path, said, text):
        """A rank that leaves with a code is told with the last error that its log names, else with its last lines."""
        held = run_to_end(prepared(tmp_path, start_run("printf '%s' \"$SAID\"; exit 3", environment={"SAID": said})))
        assert held.ranks[0].text == text

    def test_a_killed_rank_is_told_by_its_signal(self, tmp_path):
        """A rank that a signal ends has the negative number as its code."""
        held = run_to_end(prepared(tmp_path, start_run("kill -9 $$")))
        assert held.ranks[0].code == -signal.SIGKILL

    def test_what_ranks_leave_behind_is_ended(self, tmp_path):
        """A process that a rank started in a session of its own doesn't outlive the attempt."""
        folder = prepared(tmp_path, start_run("setsid sleep 1000 & echo $! > $ARGOSY_FOLDER/left; sleep 0.3"))
        run_to_end(folder)
        assert not alive(int((folder.path / "left").read_text()))

    def test_others_are_stopped_after_the_first_failure(self, tmp_path):
        """When one rank fails the others get a moment, then they are stopped."""
        order = start_run("[ $RANK = 0 ] && exit 3; sleep 1000", processes_per_node=2)
        held = run_to_end(prepared(tmp_path, order))
        assert [rank.code for rank in held.ranks] == [3, -signal.SIGTERM]

    def test_a_second_runner_leaves_the_first_alone(self, tmp_path):
        """Two runners of one folder don't run its ranks twice."""
        folder = prepared(tmp_path, start_run("echo once; sleep 1000"))
        with runner(folder) as first:
            held_when(folder, lambda held: held.state == "running")
            with runner(folder) as second:
                assert second.wait(30) == 0
            assert folder.runner_pid() == first.pid
            assert folder.log(0).read_text() == "once\n"
            folder.wish_stop(StopWish(reason="test", grace_s=0.0))
            first.wait(30)


class TestPreparing:
    def test_an_unknown_program_is_the_users(self, tmp_path):
        """A program that isn't there is told by name, before anything ran."""
        order = start_run("x")
        held = run_to_end(prepared(tmp_path, start_run_of(order, ("no-such-program", "-v"))))
        assert (held.blame, held.state) == ("user", "ended")
        assert "no program 'no-such-program'" in held.text

    @pytest.mark.parametrize(
        ("command", "text"),
        [
            (("echo", "x" * 200_000), "command: 'echo' can't be run: Argument list too long"),
            (("x" * 200_000,), "command: '/bin/sh' can't be run: Argument list too long"),
            (("./script", "-v"), "command: './script' can't be run: Exec format error"),
            (("./script/on", "-v"), "command: './script/on' can't be run: Not a directory"),
        ],
    )
    def test_what_no_machine_runs_is_the_users(self, tmp_path, command, text):
        """A command too long for the kernel, or a file that is no program, isn't tried again as a failure of a node."""
        script = tmp_path / "shared" / "script"
        script.parent.mkdir()
        script.write_bytes(b"\0no program")
        script.chmod(0o755)
        order = start_run_of(start_run("x"), command)
        spec = dataclasses.replace(order.spec, working_directory=str(script.parent))
        held = run_to_end(prepared(tmp_path / "state", msgspec.structs.replace(order, spec=spec)))
        assert (held.blame, held.state, held.text) == ("user", "ended", text)

    def test_a_missing_working_directory_is_told(self, tmp_path):
        """A folder that this node doesn't see is named with the node."""
        held = run_to_end(prepared(tmp_path, start_run("true", working_directory="/no/such/folder")))
        assert held.text == "working_directory: node n1 has no folder /no/such/folder"

    def test_ranks_run_in_the_named_folder(self, tmp_path):
        """A working directory that every node sees is where the command runs."""
        shared = tmp_path / "shared"
        shared.mkdir()
        folder = prepared(tmp_path / "state", start_run("pwd", working_directory=str(shared)))
        run_to_end(folder)
        assert folder.log(0).read_text().strip() == str(shared)

    @pytest.mark.parametrize("inside", ["../..", "/", "code/out"])
    def test_ranks_of_uploaded_code_stay_within_it(self, tmp_path, monkeypatch, inside):
        """A working directory that leads out of the upload, also by a link, is the user's mistake; nothing runs."""
        order = msgspec.structs.replace(start_run("pwd", working_directory=inside), bundle="0" * 64)
        folder = prepared(tmp_path, order)

        def unpacked(*_):
            (folder.work / "code").mkdir(parents=True)
            (folder.work / "code" / "out").symlink_to(tmp_path)

        monkeypatch.setattr("argosy.agent.commands.unpack", unpacked)
        with pytest.raises(BadInputError, match=f"working_directory: {inside} is not within what was uploaded"):
            make_crew(folder, folder.task()).prepare()

    def test_ranks_of_uploaded_code_run_in_its_folder(self, tmp_path, monkeypatch):
        """A working directory within the upload is found there."""
        folder = prepared(tmp_path, msgspec.structs.replace(start_run("pwd", working_directory="src"), bundle="0" * 64))
        monkeypatch.setattr("argosy.agent.commands.unpack", lambda *_: (folder.work / "src").mkdir(parents=True))
        crew = make_crew(folder, folder.task())
        crew.prepare()
        crew.start()
        until(lambda: crew.poll() or not crew.living, "its end")
        assert folder.log(0).read_text().strip() == str(folder.work / "src")

    def test_a_later_node_is_given_where_to_meet(self, tmp_path):
        """A node that is not the first goes where its order says; the first finds a port."""
        folder = prepared(tmp_path / "first", start_run("true"))
        assert run_to_end(folder).meeting.host == "127.0.0.1"
        order = with_meeting(start_run("echo $MASTER_ADDR:$MASTER_PORT"), Meeting(host="10.0.0.1", port=4711))
        folder = prepared(tmp_path / "second", order)
        run_to_end(folder)
        assert folder.log(0).read_text() == "10.0.0.1:4711\n"


class TestStops:
    def test_a_wish_to_stop_is_a_sigterm(self, tmp_path):
        """Ranks may leave by themselves within the grace."""
        folder = prepared(tmp_path, start_run("trap 'echo saved; exit 0' TERM; echo up; sleep 1000 & wait"))
        with runner(folder) as process:
            until(lambda: folder.log(0).exists() and folder.log(0).read_text() == "up\n", "output")
            folder.wish_stop(StopWish(reason="test", grace_s=20.0))
            os.kill(process.pid, signal.SIGTERM)
            process.wait(30)
        assert folder.log(0).read_text() == "up\nsaved\n"
        assert folder.held().state == "stopped"

    def test_what_does_not_leave_is_killed(self, tmp_path):
        """After the grace whatever is left is killed, whatever it traps."""
        folder = prepared(tmp_path, start_run("trap '' TERM; echo up; while true; do sleep 0.1; done"))
        with runner(folder) as process:
            until(lambda: folder.log(0).exists() and folder.log(0).read_text() == "up\n", "output")
            folder.wish_stop(StopWish(reason="test", grace_s=0.3))
            process.wait(30)
        assert folder.held().ranks[0].code == -signal.SIGKILL

    def test_a_lease_that_ran_out_parks_the_ranks(self, tmp_path):
        """Without word from the server ranks are killed, since others may have taken over; the agent isn't needed."""
        folder = prepared(tmp_path, start_run("sleep 1000"), lease_s=2.0)
        with runner(folder) as process:
            pid = held_when(folder, lambda held: held.ranks).ranks[0].pid
            process.wait(30)
        held = folder.held()
        assert (held.parked, held.state, held.blame) == (True, "stopped", "infrastructure")
        assert not alive(pid)

    def test_a_lease_that_is_extended_keeps_them(self, tmp_path):
        """As long as somebody extends the lease, ranks run."""
        folder = prepared(tmp_path, start_run("sleep 2.5"), lease_s=1.5)
        with runner(folder) as process:
            while process.poll() is None:
                Lease(tmp_path / "lease").extend(time.monotonic() + 1.5)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
        assert [rank.code for rank in folder.held().ranks] == [0]

    def test_a_folder_that_is_gone_parks_them(self, tmp_path):
        """When somebody removes the agent's folder nothing runs on that nobody knows of."""
        folder = prepared(tmp_path / "state", start_run("sleep 1000"))
        with runner(folder) as process:
            pid = held_when(folder, lambda held: held.ranks).ranks[0].pid
            shutil.rmtree(tmp_path / "state")
            process.wait(30)
        assert not alive(pid)

    def test_a_full_disk_costs_no_result(self, tmp_path):
        """How it ended is told once the disk takes it again; until then the runner waits, though it can't even log."""
        folder = prepared(tmp_path, start_run("echo up; exit 7"))
        (folder.path / "held").mkdir()  # in the way of the file, as a full disk would be
        with runner(folder, log="/dev/full") as process:
            until(lambda: folder.log(0).exists() and folder.log(0).read_text() == "up\n", "output")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.5)
            (folder.path / "held").rmdir()
            process.wait(30)
        assert folder.held().ranks[0].code == 7

    def test_a_full_disk_is_not_the_users_failure(self, tmp_path):
        """A command failed because its log took no more, and its job ended for good as its user's own failure."""
        folder = prepared(tmp_path, start_run("echo last; exit 1"))
        (folder.path / ".room").symlink_to("/dev/full")
        rank = run_to_end(folder).ranks[0]
        assert rank.blame == "infrastructure"
        assert rank.text == f"the node's disk is full, and its log with it: {folder.path}\nlast"

    def test_ranks_die_with_a_killed_runner(self, tmp_path):
        """Nothing runs on unwatched when the runner is killed."""
        folder = prepared(tmp_path, start_run("sleep 1000"))
        with runner(folder) as process:
            pid = held_when(folder, lambda held: held.ranks).ranks[0].pid
            process.kill()
            until(lambda: not alive(pid), "the rank's death")


class TestLogs:
    def test_patterns_say_whose_failure_it_is(self, tmp_path):
        """A line that a pattern knows speaks for its rank when that ends badly."""
        pattern = LogPattern(match="NCCL error", means="infrastructure")
        order = start_run("echo rank $RANK: NCCL error 5; exit 1", log_patterns=(pattern,))
        rank = run_to_end(prepared(tmp_path, order)).ranks[0]
        assert (rank.blame, rank.text) == ("infrastructure", "rank 0: NCCL error 5")

    def test_one_that_notes_tells_people(self, tmp_path):
        """Lines are handed on as notes of their rank, and of very many only the first."""
        pattern = LogPattern(match="slow", means="note")
        command = "seq -f 'step %g is slow' 1000; exit 0"
        folder = prepared(tmp_path, start_run(command, log_patterns=(pattern,)))
        assert run_to_end(folder).ranks[0].code == 0
        notes = [read_upward(line) for line in folder.reports.read_bytes().splitlines(keepends=True)]
        assert (len(notes), notes[0].rank, notes[0].node, notes[0].text) == (NOTES_MAX, 0, "n1", "step 1 is slow")
        assert notes[-1].text == f"step {NOTES_MAX} is slow; {NOTES_MAX} such lines were told, others are not"

    def test_a_pattern_can_stop(self, tmp_path):
        """A pattern with `stop` ends the ranks as soon as it is seen, and says why."""
        pattern = LogPattern(match="loss: nan", means="user", stop=True)
        held = run_to_end(prepared(tmp_path, start_run("echo loss: nan; sleep 1000", log_patterns=(pattern,))))
        assert held.blame == "user"
        assert held.text == "rank 0: a log pattern that stops: loss: nan"

    def test_a_pattern_that_never_ends_holds_nothing_up(self, tmp_path):
        """A regular expression that takes hours on a line is given up, which the log tells; the lease still counts."""
        patterns = tuple(LogPattern(match=text, means="user", stop=True) for text in ("(x+x+)+y", "too long"))
        line = "x" * 40
        folder = prepared(tmp_path, start_run(f"echo {line}; sleep 1000", log_patterns=patterns), lease_s=3.0)
        with runner(folder) as process:
            process.wait(30)
        assert (folder.held().parked, folder.held().state) == (True, "stopped")
        told = "[argosy] pattern '(x+x+)+y' took too long on one line; it is searched no more"
        assert folder.log(0).read_text().splitlines() == [line, told]

    def test_times_of_output_and_steps_are_told(self, tmp_path):
        """Where a job limits silence, it is told how long ago something was written, and a step was seen."""
        hang = HangSpec(step_pattern="^step", no_output_for_s=60.0, no_step_for_s=60.0)
        folder = prepared(tmp_path, start_run("echo step 1; sleep 1000", hang=hang))
        with runner(folder) as process:
            held = held_when(folder, lambda held: held.unmarked_s is not None and held.unmarked_s >= 1.0)
            assert held.quiet_s >= 1.0
            folder.wish_stop(StopWish(reason="test", grace_s=0.0))
            process.wait(30)

    def test_marks_tell_when_parts_were_written(self, tmp_path):
        """Beside each log stands from which offset on it was written when."""
        folder = prepared(tmp_path, start_run("sleep 0.4; echo step 1; sleep 0.4; echo no mark"))
        run_to_end(folder)
        marks = [int(line.split()[0]) for line in folder.marks(0).read_text().splitlines()]
        assert marks == [0, len("step 1\n")]


def start_run_of(order, command):
    """Change an order's command."""
    return msgspec.structs.replace(order, spec=type(order.spec)(command=command))


def with_meeting(order, meeting):
    """Give an order a meeting, and another place in the gang."""
    return msgspec.structs.replace(
        order, gang=msgspec.structs.replace(order.gang, node_rank=1, nodes=2, meeting=meeting)
    )
