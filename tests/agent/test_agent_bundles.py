"""Uploaded code: fetched once, checked, and kept within its folder."""

import hashlib
import io
import tarfile

import pytest

from argosy.agent.bundles import KEPT, unpack
from argosy.agent.keys import Identity, write_identity
from argosy.contracts.errors import InfrastructureError, UserCodeError
from support.talk_server import TalkServer


@pytest.fixture
def server():
    """Run a server."""
    running = TalkServer()
    yield running
    running.close()


@pytest.fixture
def state(tmp_path):
    """Make the folder of an agent that has joined."""
    folder = tmp_path / "state"
    folder.mkdir()
    write_identity(folder, Identity(agent="a", key="k"))
    return folder


def archive(**files):
    """Pack files by name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def offer(server, data):
    """Let a server have a bundle; gives its name."""
    digest = hashlib.sha256(data).hexdigest()
    server.bundles[digest] = data
    return digest


class TestUnpack:
    def test_files_are_there(self, server, state, tmp_path):
        """What was packed is unpacked, and fetched once for all attempts of a node."""
        digest = offer(server, archive(**{"src/train.py": "print(1)"}))
        unpack(server.url, state, digest, tmp_path / "one")
        server.bundles.clear()
        unpack(server.url, state, digest, tmp_path / "two")
        assert (tmp_path / "two" / "src" / "train.py").read_text() == "print(1)"

    def test_nothing_gets_out(self, server, state, tmp_path):
        """A path that leads out of the folder is refused."""
        digest = offer(server, archive(**{"../out.py": "x"}))
        with pytest.raises(UserCodeError, match="upload: the bundle can't be unpacked"):
            unpack(server.url, state, digest, tmp_path / "one")
        assert not (tmp_path / "out.py").exists()

    def test_other_bytes_are_refused(self, server, state, tmp_path):
        """What isn't what its name says is not unpacked, and not kept."""
        server.bundles["ab" * 32] = archive(a="x")
        with pytest.raises(InfrastructureError, match="is something else"):
            unpack(server.url, state, "ab" * 32, tmp_path / "one")

    def test_what_is_no_archive_is_the_users(self, server, state, tmp_path):
        """A bundle that is no tar.gz is the submitter's to mend."""
        with pytest.raises(UserCodeError, match="can't be unpacked"):
            unpack(server.url, state, offer(server, b"no archive"), tmp_path / "one")

    def test_a_small_archive_of_much_is_refused(self, server, state, tmp_path, monkeypatch):
        """What unpacks to more than a node takes is the submitter's to mend; the limit is named."""
        monkeypatch.setattr("argosy.agent.bundles.UNPACKED_BYTES_MAX", 1000)
        digest = offer(server, archive(a="x" * 600, b="x" * 600))
        with pytest.raises(UserCodeError, match=r"unpacks to more than 1,000 bytes; put large files where nodes see"):
            unpack(server.url, state, digest, tmp_path / "one")

    def test_few_are_kept(self, server, state, tmp_path):
        """Bundles of jobs long gone don't fill the disk."""
        for number in range(KEPT + 3):
            unpack(server.url, state, offer(server, archive(a=str(number))), tmp_path / "one")
        assert len(list((state / "bundles").glob("*"))) == KEPT
