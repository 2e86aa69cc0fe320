"""The shuffle's walk has an end, whatever it is asked; what it gives is in test_train_data_tokens.py."""

import numpy as np
import pytest

from argosy.train.data import shuffle
from argosy.train.data.shuffle import permuted


def permute(positions: list[int], size: int) -> list[int]:
    """Permute positions in epoch 0."""
    numbers = np.array(positions, dtype=np.uint64)
    return permuted(numbers, size, 3, np.zeros_like(numbers)).tolist()


class TestWalk:
    @pytest.mark.parametrize(("positions", "size"), [([0], 0), ([0], -1), ([5], 5), ([0, 1, 9], 5)])
    def test_refuses_what_it_could_walk_for_ever(self, positions: list[int], size: int) -> None:
        """No places at all, or a position outside, is an error: such a walk may never come inside."""
        with pytest.raises(ValueError, match="size must be at least 1, and every position less than it"):
            permute(positions, size)

    def test_ends_after_a_stated_number_of_rounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A walk that takes too many rounds is an error that says so."""
        monkeypatch.setattr(shuffle, "_WALK_MAX", 1)
        with pytest.raises(RuntimeError, match="a shuffle of 17 places with seed 3 did not end in 1 rounds"):
            permute(list(range(17)), 17)

    @pytest.mark.parametrize("size", [1, 2, 5, 17, 65, 257, 1025])
    def test_few_rounds_do_for_the_worst_sizes(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sizes just above a power of four leave most numbers outside, and still need a small part of the bound."""
        monkeypatch.setattr(shuffle, "_WALK_MAX", 60)
        assert sorted(permute(list(range(size)), size)) == list(range(size))
