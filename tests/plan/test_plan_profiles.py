"""Measured profiles: what is read, and how bad ones are refused."""

import json

import pytest

from argosy.contracts.errors import BadInputError
from argosy.plan.costs.profiles import read_profile


def times(**changes):
    """Write times of one model, chip and degree: two layers, changed as told."""
    layers = {"0": [0.1, 0.2, 0.01], "1": [0.3, 0.4, 0.01]} | changes.pop("layers", {})
    return json.dumps({"m": {"a": {"1": {"1": {k: v for k, v in layers.items() if v is not None}}}}} | changes)


def sizes(layers=2):
    """Write sizes of one model at degree 1."""
    row = {"params_floats": 3, "act_mem_floats": 4, "act_output_floats": 5}
    return json.dumps({"m": {"1": {str(index): row for index in range(layers)}}})


def read(times_text, sizes_text=None, model="m"):
    """Read both."""
    return read_profile(times_text, "times.json", sizes_text or sizes(), "sizes.json", model)


class TestReadProfile:
    def test_profile_holds_tables_by_chip_size_and_degree(self):
        """Tables are found by chip, micro-batch size and TP degree."""
        profile = read(times())
        assert profile.timed("a", 1, 1).forward_s == (0.1, 0.3)
        assert profile.sized(1).parameters == (3, 3)
        assert (profile.layers, profile.chips(), profile.degrees("a", 1)) == (2, ("a",), (1,))
        assert profile.microbatch_sizes(["a", "b"]) == (1,)

    def test_missing_tables_are_errors(self):
        """What wasn't measured is refused with what was."""
        profile = read(times())
        with pytest.raises(BadInputError, match="no times for micro-batches of 2 at TP 1 on a; measured: 1 x TP 1"):
            profile.timed("a", 2, 1)
        with pytest.raises(BadInputError, match="no sizes at TP 4; given: 1"):
            profile.sized(4)
        with pytest.raises(BadInputError, match="'b' is unknown"):
            profile.timed("b", 1, 1)

    @pytest.mark.parametrize("row", [[-0.1, 0.2, 0.1], [0.0, 0.0, 0.1]])
    def test_impossible_times_are_refused(self, row):
        """Negative times, and layers that take none, are errors that name the place."""
        with pytest.raises(BadInputError, match=r"times.json: m, a, micro-batch 1, TP 1, layer 1: .*not negative"):
            read(times(layers={"1": row}))

    def test_holes_are_refused(self):
        """A layer that is missing in the middle is an error that names it."""
        with pytest.raises(BadInputError, match="layers 1 are missing"):
            read(times(layers={"1": None, "2": [0.1, 0.1, 0.1]}))

    def test_unequal_tables_are_refused(self):
        """Times of two layers don't go with sizes of three."""
        with pytest.raises(BadInputError, match="tables of 2 and 3 layers"):
            read(times(), sizes(layers=3))

    def test_bad_text_and_names_are_refused(self):
        """Broken JSON names the file; an unknown model the nearest one."""
        with pytest.raises(BadInputError, match=r"times\.json"):
            read("{")
        with pytest.raises(BadInputError, match="did you mean m"):
            read(times(), model="mm")
