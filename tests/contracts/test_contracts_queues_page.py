"""docs/queues.md shows a file that is read, and explains every key of it."""

import re
from pathlib import Path

import pytest

from argosy.contracts import policy_file
from argosy.contracts.documents import Section
from argosy.contracts.policy import Breaker, Policy
from argosy.contracts.policy_file import check_policy, read_policy

SECTIONS = [kind for kind in vars(policy_file).values() if isinstance(kind, type) and issubclass(kind, Section)]


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    """Give the text of the page."""
    return (repository / "docs" / "queues.md").read_text("utf-8")


@pytest.fixture(scope="module")
def example(page: str) -> Policy:
    """Read the page's example."""
    text = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert text
    return read_policy(text[1], "docs/queues.md")


class TestExample:
    def test_it_is_read(self, example: Policy) -> None:
        """The queues of the example own, borrow and lend what stands there."""
        research, vision, tuning = example.queues
        assert (research.guarantee["ascend-910b3"], research.borrow, research.weight) == (384, {}, 2)
        assert (vision.borrow, vision.lend, vision.notice_s) == ({"*": 128}, {"h800-sxm": 192}, 60)
        assert (tuning.parent, tuning.order) == ("vision", "strict")

    def test_the_rules(self, example: Policy) -> None:
        """Its other tables say the same as their defaults, so the page shows both."""
        assert example.breaker == Breaker()
        assert example.reclaim == Policy().reclaim
        assert example.retries == Policy().retries
        assert example.maintenance[0].to_us - example.maintenance[0].from_us == 4 * 3_600_000_000

    def test_its_chips_and_sites(self, example: Policy) -> None:
        """It fits the fleet of the other pages."""
        assert check_policy(example, ("h800-sxm", "ascend-910b3"), ("north", "south"), ()) == ()


class TestKeys:
    @pytest.mark.parametrize(
        "section", [kind for kind in SECTIONS if kind is not Section], ids=lambda kind: kind.__name__
    )
    def test_every_key_has_its_row(self, page: str, section: type[Section]) -> None:
        """Every key of `queues.yaml` has a row in a table."""
        keys = [field.alias or name for name, field in section.model_fields.items()]
        assert [key for key in keys if f"| `{key}` |" not in page] == []

    @pytest.mark.parametrize(
        ("key", "told"),
        [("half_life", "24h"), ("lease", "30s"), ("gather", "2s"), ("prepare", "30m"), ("hold_after", "15m")],
    )
    def test_defaults_are_true(self, page: str, key: str, told: str) -> None:
        """The durations in the table of keys are what a file without them gives."""
        assert f"| `{key}` | {told} |" in page
        plain = read_policy("queues: {a: {}}", "plain")
        assert plain == read_policy(f"queues: {{a: {{}}}}\n{key}: {told}", "told")
