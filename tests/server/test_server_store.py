"""The store: all or nothing, on disk when it returns, clear when it can't."""

from pathlib import Path

import pytest

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.server.store import LOG_KEPT, Store, put_about


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Make an empty store."""
    return Store(tmp_path / "store.sqlite")


class TestCommit:
    def test_lines_and_writes_come_back(self, store: Store, tmp_path: Path) -> None:
        """What was committed is there for the next process."""
        store.commit([(1, b"one"), (2, b"two")], [put_about("seed", "7")])
        store.close()
        again = Store(tmp_path / "store.sqlite")
        assert again.recall() == (None, [b"one", b"two"])
        assert again.about("seed") == "7"

    def test_a_bad_write_takes_the_lines_with_it(self, store: Store) -> None:
        """A number that is taken leaves nothing of the whole commit, and the next one works."""
        store.commit([(1, b"one")])
        with pytest.raises(InfrastructureError, match="can't be used"):
            store.commit([(2, b"two"), (1, b"again")], [put_about("seed", "7")])
        assert store.recall() == (None, [b"one"])
        assert store.about("seed") == ""
        store.commit([(2, b"two")])
        assert store.recall() == (None, [b"one", b"two"])

    def test_a_full_disk_is_told(self, store: Store) -> None:
        """The error names the file, and what to do."""
        store._writer.execute("PRAGMA max_page_count = 30")
        with pytest.raises(InfrastructureError, match=r"store.sqlite: .* full; free space on its disk"):
            store.commit([(1, b"x" * 1_000_000)])
        assert store.recall() == (None, [])


class TestKeep:
    def test_a_snapshot_covers_the_lines_before_it(self, store: Store) -> None:
        """Only what comes after it is replayed, but stories still find the lines before it."""
        store.commit([(1, b"one"), (2, b"two"), (3, b"three")])
        store.keep(2, b"snapshot")
        assert store.recall() == (b"snapshot", [b"three"])
        assert store.lines_after(0, 10) == [b"one", b"two", b"three"]

    def test_old_lines_go(self, store: Store) -> None:
        """Lines far behind the snapshot are dropped."""
        store.commit([(1, b"one"), (LOG_KEPT + 5, b"late")])
        store.keep(LOG_KEPT + 5, b"snapshot")
        assert store.lines_after(0, 10) == [b"late"]


class TestFile:
    def test_only_its_owner_reads_it(self, store: Store) -> None:
        """The file is made with mode 0600."""
        assert store.path.stat().st_mode & 0o777 == 0o600

    def test_another_version_is_refused(self, store: Store, tmp_path: Path) -> None:
        """A store of a version to come is not touched."""
        store.commit((), [put_about("version", "9")])
        with pytest.raises(BadInputError, match="is of version 9; this Argosy reads version 2"):
            Store(tmp_path / "store.sqlite")

    @pytest.mark.parametrize("name", ["folder", "nowhere/store.sqlite", "text"])
    def test_what_is_no_store_is_refused(self, tmp_path: Path, name: str) -> None:
        """A folder, a path that is not there, and a file of something else are told by name."""
        (tmp_path / "folder").mkdir()
        (tmp_path / "text").write_text("no database, but long enough to be looked at as one" * 100)
        with pytest.raises(InfrastructureError, match=name):
            Store(tmp_path / name)

    @pytest.mark.parametrize("again", [False, True])
    def test_one_that_is_gone_is_noticed(self, store: Store, again: bool) -> None:
        """SQLite would go on writing what nobody finds again; nothing is acknowledged instead."""
        store.commit([(1, b"one")])
        store.path.rename(store.path.with_name("elsewhere"))
        if again:
            store.path.write_bytes(b"")
        with pytest.raises(InfrastructureError, match=r"store\.sqlite: the service's store can't be used: "):
            store.commit([(2, b"two")])
        with pytest.raises(InfrastructureError, match=r"store\.sqlite"):
            store.recall()
