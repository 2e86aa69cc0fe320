"""Names of checkpoints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.paths import STEP_MAX, checkpoint_name, checkpoint_step


class TestNames:
    @given(st.integers(0, STEP_MAX))
    def test_every_step_has_its_name(self, step):
        """The step of a name is the one it was made from."""
        assert checkpoint_step(checkpoint_name(step)) == step

    @given(st.integers(0, STEP_MAX - 1))
    def test_names_sort_as_steps_do(self, step):
        """The newest checkpoint is the last by name."""
        assert checkpoint_name(step) < checkpoint_name(step + 1)

    @pytest.mark.parametrize(
        "name", ["step-1", "step-000000001", "step-00000001.writing", "old-step-00000001", "step-٠٠٠٠٠٠٠١", "step-"]
    )
    def test_others_are_none(self, name):
        """A folder with fewer or more digits, or with anything before or behind, is no checkpoint."""
        assert checkpoint_step(name) is None
