"""The Pareto front."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.plan import Plan, Prediction, Replica, Stage
from argosy.plan.telling.pareto import best_at, figures_of, front_rows, pareto_front, shown


def make_plan(speed: float, cost: float | None = 1.0, power: float | None = 1.0, chips: int = 1) -> Plan:
    """Build a plan of one replica on so many chips, with its figures."""
    stage = Stage(
        first_layer=0,
        end_layer=1,
        chip_class="north/fast",
        forward_ms=1.0,
        backward_ms=1.0,
        backward_shares=(1.0,),
        tp=chips,
    )
    return Plan(
        model="tiny",
        num_layers=1,
        fleet="fleet",
        sequence_length=8,
        global_batch_size=1,
        replicas=(Replica(stages=(stage,), microbatches=1, microbatch_size=1),),
        prediction=Prediction(
            step_ms=8e3 / speed,
            tokens_per_second=speed,
            mfu=0.4,
            reference_tokens_per_second=speed,
            reference_name="itself",
            efficiency=1.0,
            cost_per_trillion_tokens=cost,
            power_kw=power,
            gap=0.02,
        ),
    )


class TestFront:
    def test_the_beaten_leave(self) -> None:
        """A plan that is slower, dearer, and takes as many chips as another is no choice for anybody."""
        fast, cheap, poor = make_plan(100, cost=5), make_plan(50, cost=2), make_plan(40, cost=3)
        front = pareto_front([poor, cheap, fast])
        assert front.plans == (fast, cheap)
        assert front.beaten == (figures_of(poor),)

    def test_each_figure_counts(self) -> None:
        """To be best in price, power or chips alone is enough to stay."""
        plans = [make_plan(9), make_plan(1, cost=0.5), make_plan(1, power=0.5), make_plan(8, chips=1)]
        big = make_plan(9.5, chips=4)
        assert len(pareto_front([*plans, big]).plans) == 4

    def test_of_equal_ones_the_first_stays(self) -> None:
        """Two plans with the same figures are one choice; the first is shown and nothing is called beaten."""
        first, second = make_plan(10), replace(make_plan(10), schedule="gpipe")
        assert pareto_front([first, second]).plans == (first,)
        assert pareto_front([first, second]).beaten == ()

    def test_what_is_unknown_beats_nothing(self) -> None:
        """A plan without a price is not cheaper than any, but may be faster."""
        known, unknown = make_plan(10, cost=3.0), make_plan(10, cost=None)
        assert pareto_front([known, unknown]).plans == (known,)
        assert len(pareto_front([known, make_plan(11, cost=None)]).plans) == 2

    def test_emulated_chips_have_no_price(self) -> None:
        """Money is not compared for chips that are played."""
        assert figures_of(replace(make_plan(10, cost=3.0), emulated=True)).cost_per_trillion_tokens is None

    @given(st.lists(st.tuples(*[st.integers(1, 4)] * 4), min_size=1, max_size=12), st.randoms(use_true_random=False))
    @settings(derandomize=True, max_examples=30)
    def test_law(self, values: list[tuple[int, int, int, int]], random: Any) -> None:
        """None of the front beats another, each of the others is beaten by one of it, whatever the order given."""
        plans = [make_plan(*each) for each in values]
        front = pareto_front(plans)
        kept = [figures_of(plan) for plan in front.plans]
        assert not any(a.beats(b) for a in kept for b in kept)
        assert all(any(a.beats(b) for a in kept) for b in front.beaten)
        random.shuffle(plans)
        assert {figures_of(plan).key for plan in pareto_front(plans).plans} == {each.key for each in kept}


class TestRows:
    def test_words(self, build: Any) -> None:
        """A row says chips, step, price, power, what all steps take and cost, the gap, and what it is best at."""
        plan = make_plan(1000, cost=2e9, power=12.5, chips=8)
        job = build.job(sequence_length=8, global_batch_size=1000, steps=100)
        row = front_rows(pareto_front([plan]), job, [build.chip_class("north/fast")])[0]
        assert (row.chips, row.tokens_per_second, row.cost, row.power) == (
            "8 fast",
            "1,000",
            "2,000,000,000",
            "12.5 kW",
        )
        assert (row.gap, row.best) == ("2.0 %", "fastest, cheapest, least power, fewest chips")
        assert row.whole == "800 ms, $1,600"

    def test_a_kind_of_two_sites(self, build: Any) -> None:
        """Where two sites of the fleet have a kind of chips, a row says which site's it uses."""
        classes = [build.chip_class("north/fast"), build.chip_class("south/fast")]
        (row,) = front_rows(pareto_front([make_plan(1000)]), build.job(), classes)
        assert row.chips == "1 north/fast"

    def test_best_at(self) -> None:
        """Each kind of best is told of one plan; power is not told where it is unknown."""
        plans = [make_plan(9, cost=3, power=None), make_plan(5, cost=1, power=None, chips=2)]
        assert best_at(plans) == {0: "fastest, fewest chips", 1: "cheapest"}

    def test_a_long_front_is_thinned(self) -> None:
        """Of many plans a screen shows a dozen at most, the best ones always."""
        for count in (13, 50, 400):
            rows = shown(count, [0, 7, count - 1])
            assert len(rows) <= 12
            assert {0, 7, count - 1} <= set(rows) <= set(range(count))
