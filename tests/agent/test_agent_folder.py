"""The folder of a generation: what is written is read whole, a lock tells of its holder, a lease of its end."""

import stat
import subprocess
import sys

import pytest

from argosy.agent.folder import (
    AttemptFolder,
    Lease,
    Standing,
    StopWish,
    Task,
    attempt_path,
    lock_holder,
    take_lock,
    write_whole,
)
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import Held
from support.talk_server import start_run


def folder_of(path):
    """Make a folder with a task."""
    folder = AttemptFolder(attempt_path(path, "job-1.1", 0))
    folder.begin(Task(order=start_run("true"), node="n1", address="127.0.0.1", state=str(path)))
    return folder


class TestAttemptFolder:
    def test_what_is_written_is_read(self, tmp_path):
        """Task, wish and what is held are there for whoever comes next."""
        folder = folder_of(tmp_path)
        assert folder.task().order == start_run("true")
        assert folder.held() is None
        assert folder.stop_wish() is None
        held = Held(attempt="job-1.1", generation=0, state="running")
        folder.publish(Standing(held=held))
        folder.wish_stop(StopWish(reason="test", grace_s=3.0))
        assert folder.held() == held
        assert folder.stop_wish().grace_s == 3.0

    def test_it_is_its_users_alone(self, tmp_path):
        """A task may hold secrets of the job's environment."""
        path = folder_of(tmp_path).path / "task"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_damaged_task_is_told(self, tmp_path):
        """A file that is no task is named."""
        folder = folder_of(tmp_path)
        (folder.path / "task").write_bytes(b"\xff")
        with pytest.raises(InfrastructureError, match="no task to be read in"):
            folder.task()

    @pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a" * 200, "job 1"])
    def test_names_stay_inside(self, tmp_path, name):
        """An attempt's name can't lead out of the agent's folder."""
        with pytest.raises(BadInputError, match="not a name that a server gives"):
            attempt_path(tmp_path, name, 0)


class TestWriteWhole:
    def test_a_failed_write_leaves_the_old(self, tmp_path):
        """What can't be written whole changes nothing and leaves nothing behind."""
        path = tmp_path / "kept"
        write_whole(path, b"old")
        with pytest.raises(TypeError):
            write_whole(path, 5)
        assert path.read_bytes() == b"old"


class TestLock:
    def test_its_holder_is_known(self, tmp_path):
        """Another process's lock is seen with its number, and is gone with the process."""
        code = "import sys; from pathlib import Path; from argosy.agent.folder import take_lock\n"
        code += "take_lock(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", code, str(tmp_path / "lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            assert lock_holder(tmp_path / "lock") == process.pid
            assert take_lock(tmp_path / "lock") is None
            process.stdin.close()
            process.wait()
        assert lock_holder(tmp_path / "lock") == 0
        assert take_lock(tmp_path / "lock") is not None

    def test_no_file_no_holder(self, tmp_path):
        """A lock that was never taken has no holder."""
        assert lock_holder(tmp_path / "lock") == 0


class TestLease:
    def test_it_ends_when_it_was_said(self, tmp_path):
        """The last word counts, whatever was there before."""
        lease = Lease(tmp_path / "lease")
        lease.extend(123456789.5)
        lease.extend(7.25)
        assert lease.deadline_s() == 7.25

    def test_another_boot_voids_it(self, tmp_path):
        """Its clock counts from another moment; a process that begins in the same boot finds the lease as it was."""
        lease = Lease(tmp_path / "lease")
        lease.begin("boot-1")
        lease.extend(1e6)
        lease.begin("boot-1")
        assert lease.deadline_s() == 1e6
        lease.begin("boot-2")
        assert lease.deadline_s() == 0.0
        lease.extend(5.0)
        lease.begin("boot-2")
        assert lease.deadline_s() == 5.0

    @pytest.mark.parametrize("text", [None, "", "soon", "nan"])
    def test_what_can_not_be_read_has_ended(self, tmp_path, text):
        """Without a lease that can be read, ranks must not run."""
        if text is not None:
            (tmp_path / "lease").write_text(text)
        assert Lease(tmp_path / "lease").deadline_s() == 0.0
