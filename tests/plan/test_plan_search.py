"""What the search tries, and that it stays bounded."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.plan.costs.program import MEGATRON_CORE, program_for
from argosy.plan.forms import FORMS
from argosy.plan.pipelines.grid import Family, Part, spread, tp_degrees
from argosy.plan.search.drafts import Candidate, Draft
from argosy.plan.search.offers import class_sets
from argosy.plan.search.question import make_search
from argosy.plan.search.search import Search, partitions


class TestSpread:
    @pytest.mark.parametrize(("maximum", "count"), [(1, 6), (5, 6), (100, 6), (10_000, 14)])
    def test_ends_and_bound(self, maximum: int, count: int) -> None:
        """It holds 1 and the maximum, and no more numbers than asked for."""
        numbers = spread(maximum, count)
        assert (numbers[0], numbers[-1]) == (1, maximum)
        assert len(numbers) <= count


class TestTp:
    def test_divides(self, build: Any) -> None:
        """For the trainer TP divides the node, the heads, the key-value heads, the MLP and the vocabulary."""
        wide = [build.chip_class(chips_per_node=8)]
        assert tp_degrees(build.setting(), wide) == [1, 2]
        assert tp_degrees(build.setting(vocab_size=255), wide) == [1]
        assert tp_degrees(build.setting(), [build.chip_class(), build.chip_class(chips_per_node=3)]) == [1]

    def test_other_frameworks(self, build: Any) -> None:
        """Megatron Core pads the vocabulary and copies keys; of its kin torchtitan does neither, FlagScale pads."""
        wide = [build.chip_class(chips_per_node=8)]
        expected = {"": [1, 2, 4], "megatron": [1, 2, 4], "flagscale": [1, 2], "torchtitan": [1]}
        for name, degrees in expected.items():
            program = program_for("bf16", own=False, form=FORMS.get(name))
            assert tp_degrees(replace(build.setting(vocab_size=255), program=program), wide) == degrees

    def test_sequences_are_cut_too(self, build: Any) -> None:
        """Where norms are cut along the sequence, TP divides that as well."""
        setting = replace(build.setting(sequence_length=66), program=MEGATRON_CORE)
        assert tp_degrees(setting, [build.chip_class(chips_per_node=8)]) == [1, 2]


class TestPartitions:
    @pytest.mark.parametrize(("classes", "ways"), [(1, 1), (2, 2), (3, 5), (4, 14), (6, 1)])
    def test_count(self, build: Any, classes: int, ways: int) -> None:
        """Few classes are put together in every way, at most three in a pipeline; many stay apart."""
        parts = build.parts(*(build.chip_class(f"north/c{i}") for i in range(classes)))
        found = list(partitions(parts))
        assert len(found) == ways
        assert all(len(block) <= 3 for blocks in found for block in blocks)

    def test_many_by_site(self, build: Any) -> None:
        """Of many classes those of one site are put together, or those of every site."""
        sites = ("east", "east", "west", "west", "north")
        parts = build.parts(*(build.chip_class(f"{site}/c{i}") for i, site in enumerate(sites)))
        assert [sorted(map(len, blocks)) for blocks in partitions(parts)] == [
            [1, 1, 1, 1, 1],
            [1, 1, 1, 2],
            [1, 1, 1, 2],
            [1, 2, 2],
        ]


class TestProgram:
    def test_of_a_plan(self, build: Any) -> None:
        """Plans are as Megatron Core trains; in fp32 and where only the trainer's are wanted, as that does."""
        asked = [
            make_search(build.job(precision=precision), build.shape(), (), "f", runnable=runnable)
            for precision, runnable in (("bf16", False), ("bf16", True), ("fp32", False))
        ]
        assert [search.base.setting.program.name for search in asked] == ["megatron-core", "argosy", "argosy"]


class TestClassSets:
    def test_few_and_many(self, build: Any) -> None:
        """Of a few classes all sets are tried; of many all together, each site, and each alone."""
        few = [build.chip_class(f"north/c{i}") for i in range(3)]
        many = [build.chip_class(f"{site}/c{i}") for site in ("north", "south") for i in range(3)]
        assert len(class_sets(few)) == 7
        assert len(class_sets(many)) == 1 + 2 + 6


class TestScale:
    @pytest.mark.slow
    def test_ten_thousand_chips(self, build: Any) -> None:
        """However many chips there are, few templates are cut, for classes are planned over, not chips."""
        fleets = [
            build.parts(
                *(
                    build.chip_class(f"{site}/{name}", tflops=200.0, chips_per_node=8, nodes=nodes, nic_gbps=3200.0)
                    for site in ("north", "south")
                    for name in ("fast", "slow")
                )
            )
            for nodes in (8, 313)
        ]
        tried = []
        for parts in fleets:
            search = build.search(build.setting("llama-3-8b", 8192, "bf16"), (build.link(gbps=1600),), batch=4096)
            assert search.estimates(parts, 4096, 12)
            tried.append(sum(isinstance(key, tuple) and key[0] == "cut" for key in search.base.setting.tables))
        assert max(tried) < 5000


class TestTurns:
    @pytest.mark.parametrize(("mix", "timed"), [(True, ["1f1b", "1f1b", "gpipe"]), (False, ["1f1b", "1f1b"])])
    def test_first_of_each_family(self, build: Any, monkeypatch: Any, mix: bool, timed: list[str]) -> None:
        """With full effort many like choices of one family don't keep the first of another from being timed."""
        search = make_search(build.job(), build.shape(), (), "fleet")
        part = Part(chip_class=build.chip_class("north/chip", 0.001), chips=2)
        draft = search.estimates([part], 8, 1)[0].draft
        asked: list[str] = []

        def drafts(_search: Search, candidate: Candidate, _batch: int) -> list[Draft]:
            asked.append(candidate.family.schedule)
            return [draft]

        template = draft.groups[0].template
        names = ["1f1b"] * 9 + ["gpipe"] * 2
        found = [
            Candidate(choice=((template, count),), family=Family(schedule=name), least_ms=0.0)
            for count, name in enumerate(names, 1)
        ]
        monkeypatch.setattr(Search, "drafts", drafts)
        monkeypatch.setattr(Search, "candidates", lambda *_: iter(found))
        monkeypatch.setattr(Search, "mixes", lambda *_: ())
        search.estimates([part], 8, 1, mix=mix)
        assert asked == timed
