"""Token sets on disk and the batches read from them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts import codec
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.train.data.shuffle import permuted
from argosy.train.data.tokens import META_FILE, TOKENS_FILE, TokenMeta, TokenSet


def token_set(folder: Path, tokens: int = 101, sequence_length: int = 10) -> TokenSet:
    """Write the tokens 0, 1, 2, ... and open them."""
    meta = TokenMeta(
        tokens=tokens,
        dtype="uint16",
        vocab_size=tokens,
        end_of_text=0,
        documents=1,
        files=1,
        text_bytes=0,
        tokenizer="bytes",
        tokenizer_s=0.0,
    )
    (folder / META_FILE).write_bytes(codec.encode(meta))
    np.arange(tokens, dtype=np.uint16).tofile(folder / TOKENS_FILE)
    return TokenSet(folder, sequence_length=sequence_length)


def order(size: int, seed: int = 0, epoch: int = 0) -> list[int]:
    """Permute 0..size-1."""
    positions = np.arange(size, dtype=np.uint64)
    return permuted(positions, size, seed, np.full_like(positions, epoch)).tolist()


class TestPermuted:
    @given(size=st.integers(1, 3000), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 2**40))
    @settings(derandomize=True, deadline=None, max_examples=100)
    def test_reaches_every_place_once(self, size: int, seed: int, epoch: int) -> None:
        """Whatever the size, seed and epoch, it is a permutation."""
        assert sorted(order(size, seed, epoch)) == list(range(size))

    def test_differs_by_seed_and_epoch(self) -> None:
        """Another seed or epoch is another order, and the same ones are the same order."""
        orders = {tuple(order(50, seed, epoch)) for seed in (0, 1, -1) for epoch in (0, 1)}
        assert len(orders) == 6
        assert order(50) == order(50)

    def test_keeps_its_order_for_ever(self) -> None:
        """A run resumed by a later version goes on with the same data."""
        assert order(10, seed=7) == [9, 2, 1, 6, 8, 7, 4, 5, 3, 0]

    def test_mixes_well(self) -> None:
        """Neighbours end up far apart and no place keeps to itself, as in a random order."""
        places = np.array(order(10_000), dtype=np.float64)
        assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < 0.05
        assert (places == np.arange(10_000)).sum() < 10

    def test_needs_no_memory_for_a_large_set(self) -> None:
        """Single places of a set of 10^15 can be asked for."""
        positions = np.array([0, 1, 10**15 - 1], dtype=np.uint64)
        places = permuted(positions, 10**15, 3, np.zeros_like(positions))
        assert len(set(places.tolist())) == 3
        assert (places < 10**15).all()


class TestTokenSet:
    def test_sequences_share_their_boundary(self, tmp_path: Path) -> None:
        """Each sequence has one token more than its length, the first of the next one."""
        rows = token_set(tmp_path).batch(0, 10, 0)
        assert rows.shape == (10, 11)
        assert rows.dtype == np.int64
        assert sorted(rows.tolist()) == [list(range(10 * i, 10 * i + 11)) for i in range(10)]

    @pytest.mark.parametrize(("tokens", "count"), [(11, 1), (20, 1), (21, 2), (101, 10)])
    def test_counts_whole_sequences(self, tmp_path: Path, tokens: int, count: int) -> None:
        """A rest that is too short for a sequence is left out."""
        assert len(token_set(tmp_path, tokens)) == count

    @given(gbs=st.integers(1, 25), step=st.integers(0, 50), seed=st.integers(0, 99), data=st.data())
    @settings(derandomize=True, deadline=None, max_examples=60)
    def test_rows_are_part_of_the_batch(
        self, tmp_path_factory: pytest.TempPathFactory, gbs: int, step: int, seed: int, data: st.DataObject
    ) -> None:
        """Any replica's rows equal those of the whole batch, at any step."""
        start = data.draw(st.integers(0, gbs))
        count = data.draw(st.integers(0, gbs - start))
        tokens = token_set(tmp_path_factory.mktemp("set"))
        batch = tokens.batch(step, gbs, seed)
        assert (tokens.rows(step, gbs, seed, start, count) == batch[start : start + count]).all()

    def test_an_epoch_uses_every_sequence_once(self, tmp_path: Path) -> None:
        """Before anything comes again, everything came; and the next epoch has another order."""
        tokens = token_set(tmp_path)
        firsts = [row[0] for step in range(10) for row in tokens.batch(step, 4, 5).tolist()]
        epochs = [firsts[i : i + 10] for i in range(0, 40, 10)]
        assert all(sorted(epoch) == list(range(0, 100, 10)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) == 4

    def test_global_order_does_not_depend_on_the_batch_size(self, tmp_path: Path) -> None:
        """Two steps of 4 read what one step of 8 reads."""
        tokens = token_set(tmp_path)
        assert (np.concatenate([tokens.batch(0, 4, 1), tokens.batch(1, 4, 1)]) == tokens.batch(0, 8, 1)).all()

    @pytest.mark.parametrize(("step", "start", "count"), [(-1, 0, 1), (0, -1, 1), (0, 3, 2), (0, 0, -1)])
    def test_refuses_rows_outside_the_batch(self, tmp_path: Path, step: int, start: int, count: int) -> None:
        """Asking for rows that a batch does not have is our bug and fails at once."""
        with pytest.raises(ValueError, match="outside a batch of 4"):
            token_set(tmp_path).rows(step, 4, 0, start, count)

    def test_refuses_too_few_tokens(self, tmp_path: Path) -> None:
        """A set without one whole sequence can't be opened."""
        with pytest.raises(BadInputError, match="10 tokens, too few for one sequence of 10"):
            token_set(tmp_path, tokens=10)


class TestDamage:
    def test_names_a_folder_without_a_set(self, tmp_path: Path) -> None:
        """A folder without a description is said to be no token set."""
        with pytest.raises(InfrastructureError, match=r"not a token set.*prepare the data again"):
            TokenSet(tmp_path, sequence_length=1)

    def test_notices_a_truncated_file(self, tmp_path: Path) -> None:
        """Tokens cut short by a crash are noticed by their length."""
        token_set(tmp_path)
        with (tmp_path / TOKENS_FILE).open("r+b") as file:
            file.truncate(100)
        with pytest.raises(InfrastructureError, match="has 100 bytes, not 202"):
            TokenSet(tmp_path, sequence_length=10)

    @pytest.mark.parametrize("change", [('"version":1', '"version":9'), ('"uint16"', '"float8"')])
    def test_refuses_other_layouts(self, tmp_path: Path, change: tuple[str, str]) -> None:
        """A set of another version or dtype is not misread."""
        token_set(tmp_path)
        meta = tmp_path / META_FILE
        meta.write_text(meta.read_text().replace(*change))
        with pytest.raises(InfrastructureError, match=r"not a token set.*(version 9|float8).*prepare"):
            TokenSet(tmp_path, sequence_length=10)
