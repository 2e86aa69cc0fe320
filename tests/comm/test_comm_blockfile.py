"""Rectangles of tensors, saved by several ranks under one cut and loaded under another."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.comm.blockfile import Piece, load_pieces, save_pieces
from argosy.contracts.errors import BadInputError, InfrastructureError
from support.worlds import fork_ranks, hosted_store, in_world, joined

ROWS, COLUMNS = 6, 4


def whole(key: str = "w") -> torch.Tensor:
    """Give the tensor that a key stands for."""
    return torch.arange(ROWS * COLUMNS, dtype=torch.float32).view(ROWS, COLUMNS) + 100 * (len(key) - 1)


def piece(top: int, bottom: int, left: int = 0, right: int = COLUMNS, *, key: str = "w", full: bool = True) -> Piece:
    """Cut a rectangle out of a whole tensor, filled, or empty to be loaded into."""
    cut = whole(key)[top:bottom, left:right].clone()
    tensor = cut if full else torch.zeros_like(cut)
    return Piece(key=key, whole_sizes=(ROWS, COLUMNS), offsets=(top, left), tensor=tensor)


def save_alone(folder: Path, *pieces: Piece) -> None:
    """Save from one process."""
    in_world(1, lambda _: save_pieces(pieces or [piece(0, ROWS)], folder))


def load_alone(folder: Path, wanted: Piece) -> torch.Tensor:
    """Load one piece in this process."""
    load_pieces([wanted], folder, alone=True)
    return wanted.tensor


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Save `w` from three ranks by rows and `ww` from two of them by columns."""
    folder = tmp_path_factory.mktemp("pieces")
    cuts = {
        0: [piece(0, 1), piece(0, ROWS, 0, 3, key="ww")],
        1: [piece(1, 4), piece(0, ROWS, 3, 4, key="ww")],
        2: [piece(4, 6)],
    }
    in_world(3, lambda rank: save_pieces(cuts[rank], folder))
    return folder


@pytest.mark.slow
class TestOtherCuts:
    """What was saved under one cut is whole under any other."""

    @settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        key=st.sampled_from(["w", "ww"]),
        rows=st.tuples(st.integers(0, ROWS - 1), st.integers(1, ROWS)).filter(lambda r: r[0] < r[1]),
        columns=st.tuples(st.integers(0, COLUMNS - 1), st.integers(1, COLUMNS)).filter(lambda c: c[0] < c[1]),
    )
    def test_any_rectangle(self, saved, key, rows, columns):
        """Any rectangle is read, however many saved pieces it crosses."""
        wanted = piece(*rows, *columns, key=key, full=False)
        assert torch.equal(load_alone(saved, wanted), piece(*rows, *columns, key=key).tensor)

    def test_several_ranks_load(self, saved):
        """Two ranks read halves that cross what three wrote."""
        halves = [piece(0, 3, full=False), piece(3, ROWS, full=False)]

        def load(rank: int) -> list[list[float]]:
            load_pieces([halves[rank]], saved)
            return halves[rank].tensor.tolist()

        top, bottom = in_world(2, load)
        assert top + bottom == whole().tolist()

    def test_into_a_view(self, saved):
        """A piece may be a view of a larger tensor; what lies beside it stays."""
        room = torch.full((ROWS, COLUMNS + 2), -1.0)
        view = room[:, 1 : 1 + COLUMNS]
        load_pieces([Piece(key="w", whole_sizes=(ROWS, COLUMNS), offsets=(0, 0), tensor=view)], saved, alone=True)
        assert torch.equal(view, whole())
        assert set(room[:, [0, -1]].flatten().tolist()) == {-1.0}


@pytest.mark.slow
class TestRefusals:
    """What can't be loaded is said in one line that names the folder."""

    def test_missing_tensor(self, saved):
        """A tensor that the checkpoint lacks is named."""
        wanted = Piece(key="elsewhere", whole_sizes=(1,), offsets=(0,), tensor=torch.zeros(1))
        with pytest.raises(BadInputError, match=r"pieces.*no tensor 'elsewhere'"):
            load_alone(saved, wanted)

    def test_other_sizes(self, saved):
        """A tensor of other sizes is named with both."""
        wanted = Piece(key="w", whole_sizes=(9, 4), offsets=(0, 0), tensor=torch.zeros(9, 4))
        with pytest.raises(BadInputError, match=r"its w is \(6, 4\), here \(9, 4\)"):
            load_alone(saved, wanted)

    def test_all_ranks_refuse(self, saved):
        """When one rank's tensor is missing all ranks stop with the same error, and none waits."""

        def load(rank: int) -> None:
            load_pieces([piece(0, 1, key="ww" if rank else "www", full=False)], saved)

        with hosted_store() as port:
            ended = fork_ranks(2, lambda rank, _: joined(load, rank, 2, port))
        assert [type(each.error) for each in ended] == [BadInputError] * 2
        assert all("no tensor 'www'" in each.error_text for each in ended)

    def test_no_folder(self, tmp_path):
        """A folder that is not there is named."""
        with pytest.raises(BadInputError, match="nowhere"):
            load_alone(tmp_path / "nowhere", piece(0, 1, full=False))

    @pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
    @pytest.mark.parametrize("kept", [0, 40, 0.5, 0.99], ids=["emptied", "at 40 bytes", "halved", "less its end"])
    def test_truncated_file(self, tmp_path, name, kept):
        """A file that lost its end is a damaged checkpoint, not a stack trace."""
        save_alone(tmp_path)
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: kept if kept in (0, 40) else int(kept * len(data))])
        with pytest.raises(BadInputError, match=f"{tmp_path}.*damaged") as caught:
            load_alone(tmp_path, piece(0, ROWS, full=False))
        assert len(str(caught.value).splitlines()) == 1

    def test_lost_file(self, tmp_path):
        """A file that is gone is named."""
        save_alone(tmp_path)
        (tmp_path / "__0_0.distcp").unlink()
        with pytest.raises(BadInputError, match=r"__0_0\.distcp"):
            load_alone(tmp_path, piece(0, ROWS, full=False))

    @pytest.mark.parametrize(
        "call",
        ["posix\nsystem", "builtins\nexec", "torch\nload", "torch.distributed.checkpoint.filesystem\nos.system"],
    )
    def test_pickled_code_is_not_run(self, tmp_path, call):
        """Metadata that would run code when unpickled is refused."""
        save_alone(tmp_path)
        (tmp_path / ".metadata").write_bytes(f"\x80\x04c{call}\n(S'touch {tmp_path}/ran'\ntR.".encode("latin1"))
        with pytest.raises(BadInputError, match="damaged checkpoint: metadata names"):
            load_alone(tmp_path, piece(0, ROWS, full=False))
        assert not (tmp_path / "ran").exists()

    def test_unreadable_folder(self, tmp_path):
        """Where the system refuses to read, the infrastructure is to blame."""
        (tmp_path / ".metadata").mkdir()
        with pytest.raises(InfrastructureError, match="can't be read"):
            load_alone(tmp_path, piece(0, 1, full=False))
