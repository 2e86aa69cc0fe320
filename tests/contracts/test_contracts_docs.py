"""The pages on contracts and on `job.yaml` name what exists."""

import importlib
import re

import pytest

from argosy.contracts import job_file, layouts, run_file
from argosy.contracts.documents import Section

MODULES = ("fleet", "job", "plan", "option", "incident", "messages", "layouts", "rank_trace", "talk")
CORE_MODULES = ("policy", "request", "event", "command", "fencing", "pending")
FILES = (job_file, run_file)
KINDS = {kind for file in FILES for kind in vars(file).values() if isinstance(kind, type) and issubclass(kind, Section)}
SECTIONS = sorted(KINDS - {Section}, key=lambda kind: kind.__name__)


class TestPages:
    @pytest.mark.parametrize("name", MODULES + CORE_MODULES)
    def test_every_contract_has_its_place(self, repository, name):
        """docs/contracts.md names every contract of every module."""
        page = (repository / "docs" / "contracts.md").read_text()
        module = importlib.import_module(f"argosy.contracts.{name}")
        kinds = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
        contracts = [kind.__name__ for kind in kinds if isinstance(kind, type) and not kind.__name__.startswith("_")]
        assert [contract for contract in contracts if f"`{contract}`" not in page] == []

    @pytest.mark.parametrize("section", SECTIONS, ids=lambda kind: kind.__name__)
    def test_every_key_is_explained(self, repository, section):
        """docs/job.md has a row or a table for every key of `job.yaml`."""
        page = (repository / "docs" / "job.md").read_text()
        missing = [
            key for key in section.model_fields if not re.search(rf"^\|[^|]*`{key}`|`{key}:`", page, re.MULTILINE)
        ]
        assert missing == []

    def test_sizes_of_layouts_are_true(self, repository):
        """The bytes in the table of layouts are those of the code."""
        page = (repository / "docs" / "contracts.md").read_text()
        rows = dict(re.findall(r"\| `(\w+)` \| (\d+)", page))
        sizes = (layouts.HEADER_BYTES, layouts.MARK_BYTES, layouts.RECORD_BYTES, layouts.UNIT_BYTES)
        assert tuple(rows[name] for name in ("RingHeader", "ProgressMark", "TraceRecord", "SnapshotUnit")) == tuple(
            str(size) for size in sizes
        )

    def test_the_examples_are_read(self, repository):
        """Every job.yaml that docs/job.md shows is valid, one of each kind."""
        texts = re.findall(r"```yaml\n(.*?)```", (repository / "docs" / "job.md").read_text(), re.DOTALL)
        assert [run_file.read_any_job(text, "docs/job.md").kind for text in texts] == ["train", "run"]
