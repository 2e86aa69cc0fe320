"""The files shown in docs/exports.md are what is written."""

import re
from pathlib import Path

import pytest

from argosy.contracts.plan import Plan
from argosy.plan.exports.formats import FORMATS
from support.exports import make_plan, make_replica, named_shape

SHAPE = named_shape("llama-3-8b")
ALIKE = make_plan(
    SHAPE,
    *[make_replica([7, 8, 9, 8], 16, tp=2, recompute="full", chip_class="north/h800-sxm")] * 4,
    sequence_length=8192,
    zero_stage=1,
)
CLASSES = ["north/a800-sxm"] * 2 + ["north/h800-sxm"] * 2
MIXED = make_plan(
    SHAPE, *[make_replica([6, 8, 10, 8], 16, tp=[4, 4, 2, 2], chip_class=CLASSES)] * 2, sequence_length=8192
)


class TestPage:
    @pytest.mark.parametrize(
        ("name", "language", "plan"),
        [("megatron", "bash", ALIKE), ("torchtitan", "python", ALIKE), ("flagscale", "yaml", MIXED)],
    )
    def test_shown_as_written(self, repository: Path, name: str, language: str, plan: Plan) -> None:
        """The first block in each framework's language is the export of the plan described above it."""
        page = (repository / "docs" / "exports.md").read_text("utf-8")
        shown = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)
        assert shown
        assert shown[1] == FORMATS[name](plan, SHAPE, None)
