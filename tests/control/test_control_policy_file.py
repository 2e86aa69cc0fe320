"""Reading queues.yaml: the example, every key, and every mistake with its place."""

import itertools

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.policy import EVERY_KIND, FLOORS, LEVELS_MAX, Breaker, Policy
from argosy.contracts.policy_file import WINDOWS_MAX, check_policy, read_policy

EXAMPLE = """
queues:
  research: {guarantee: {h800-sxm: 256, ascend-910b3: 384}, borrow: yes, lend: yes, weight: 2}
  vision:   {guarantee: {h800-sxm: 256}, borrow: {limit: 128}, lend: {notice: 60s}, weight: 1}
reclaim:  {at_most: 1.5x requested, never_from: [serving floors], cooldown: 10m}
spares:   {north: 2, south: 2}
breakers: {cordon: 2 % of the fleet in 10m}
maintenance:
  - {site: south, rack: 3, from: 2026-12-05T02:00, to: 2026-12-05T06:00}
"""


class TestRead:
    def test_the_example_is_read(self):
        """The documented example gives queues, limits, notice, caps, spares, breaker and window."""
        policy = read_policy(EXAMPLE, "queues.yaml")
        research, vision = policy.queues
        assert (research.borrow, vision.borrow, vision.notice_s) == ({}, {EVERY_KIND: 128}, 60.0)
        assert (policy.reclaim.at_most, policy.spares, policy.breaker) == (1.5, {"north": 2, "south": 2}, Breaker())
        assert policy.maintenance[0].to_us - policy.maintenance[0].from_us == 4 * 3_600_000_000

    def test_what_is_left_out_has_the_contract_s_default(self):
        """A file of one empty queue is the default policy but for the queue's name."""
        policy = read_policy("queues: {q: {}}", "queues.yaml")
        assert policy == Policy(queues=policy.queues)

    def test_no_means_nothing(self):
        """`borrow: no` and `lend: no` are limits of zero."""
        queue = read_policy("queues: {q: {borrow: no, lend: no}}", "q").queues[0]
        assert (queue.borrow, queue.lend) == ({EVERY_KIND: 0}, {EVERY_KIND: 0})

    def test_the_page_on_turns_shows_a_valid_file(self, repository):
        """The queues.yaml of docs/schedulers.md is read as it stands."""
        text = (repository / "docs" / "schedulers.md").read_text().split("```")[1].removeprefix("yaml")
        assert [item.order for item in read_policy(text, "q").queues] == ["shortest_remaining", "fair"]

    def test_none_is_a_time_where_it_means_something(self):
        """`start_cost: 0s`, the default, could not be written; the same went for waits that one may do without."""
        policy = read_policy("queues: {q: {order: fair, round: {start_cost: 0s}}}\ngather: 0s\nhold_after: 0", "q")
        assert (policy.queues[0].round.start_s, policy.gather_s, policy.hold_after_s) == (0.0, 0.0, 0.0)

    def test_a_queue_is_spared_with_all_below_it(self):
        """`never_from` of a parent did nothing, since jobs are in the leaves."""
        text = "queues: {p: {}, m: {parent: p}, c: {parent: m}, q: {}}\nreclaim: {never_from: [p, serving floors]}"
        assert read_policy(text, "q").reclaim.never_from == ("p", FLOORS, "m", "c")

    @pytest.mark.slow
    def test_a_tree_of_five_thousand_queues(self):
        """Flat, and as deep as may be."""
        names = [f"q{index}" for index in range(5_000)]
        flat = "".join(f"  {name}: {{parent: all}}\n" for name in names)
        chain = ["all", *names[: LEVELS_MAX - 1]]
        deep = "".join(f"  {name}: {{parent: {above}}}\n" for above, name in itertools.pairwise(chain))
        assert len(read_policy("queues:\n  all: {}\n" + flat, "q").queues) == 5_001
        assert len(read_policy("queues:\n  all: {}\n" + deep, "q").queues) == LEVELS_MAX

    def test_preemption_can_be_off(self):
        """`preemption: no` lets nobody be evicted."""
        assert read_policy("queues: {q: {}}\npreemption: no", "q").reclaim.at_most == 0.0


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("queues: {}", "at least 1"),
            ("queues: {q: {wieght: 2}}", "q.yaml:1:14  queues.q.wieght: unknown key; did you mean weight?"),
            ("queues: {q: {borrow: maybe}}", "write yes, no, or {limit: 128}"),
            ("queues: {q: {borrow: {notice: 5s}}}", "notice belongs to lend"),
            ("queues: {q: {parent: r}, rr: {}}", "no queue r; did you mean rr?"),
            ("queues: {a: {parent: b}, b: {parent: a}}", "would be its own ancestor"),
            ("queues: {p: {guarantee: {h: 8}}, c: {parent: p, guarantee: {h: 9}}}", "9 together, more than its own 8"),
            ("queues: {q: {}}\nbreakers: {cordon: lots}", "such as 2 % of the fleet in 10m"),
            ("queues: {q: {}}\nbreakers: {cordon: 200 % in 10m}", "such as 2 % of the fleet in 10m"),
            ("queues: {q: {}}\nreclaim: {at_most: much}", "such as 1.5x requested"),
            ("queues: {q: {}}\nmaintenance: [{site: s, from: soon, to: later}]", "such as 2026-12-05T02:00"),
            ("queues: {q: {}}\nmaintenance: [{site: s, from: 2026-12-05, to: 2026-12-04}]", "must be after from"),
            ("queues: {q: {}}\nmaintenance: [{site: s, rack: -1, from: 2026-12-05, to: 2026-12-06}]", "0 or more"),
            ("queues: {q: {lend: {notice: 1e300}}}", "from 0 to 1,000,000,000 s"),
            ("queues: {q: {}}\nbreakers: {cordon: 2 % in 0s}", "from 1 to 1,000,000,000 s"),
            ("queues: {q: {}}\nreclaim: {at_most: 1e300}", "100,000,000 or less"),
            ("queues: {q: {}}\nlease: 1us", "must be 1 or more"),
            ("queues: {q: {}}\nprepare: 0s", "must be 1 or more"),
            ("queues: {vision: {}}\nreclaim: {never_from: [vison]}", "no queue vison; did you mean vision?"),
            ("queues: {' q': {}}", "no space around it"),
            ("queues: {e\u0301: {}}", "write \u00e9"),
        ],
    )
    def test_each_mistake_says_what_is_allowed(self, text, words):
        """Every mistake names its place or what may stand there."""
        with pytest.raises(BadInputError) as caught:
            read_policy(text, "q.yaml")
        assert words in str(caught.value)

    def test_a_nameless_queue_is_one_mistake(self):
        """It was told to be its own ancestor as well."""
        with pytest.raises(BadInputError) as caught:
            read_policy("queues: {'': {}}", "q.yaml")
        assert str(caught.value) == "q.yaml:1:10  queues.: a queue needs a name, got ''"

    def test_a_tree_has_so_many_levels(self):
        """One level more is named with its place; a chain of thousands took minutes to be worked out."""
        chain = [f"q{index}" for index in range(LEVELS_MAX + 1)]
        rows = [f"  {name}: {{parent: {above}}}\n" for above, name in itertools.pairwise(chain)]
        with pytest.raises(BadInputError) as caught:
            read_policy("queues:\n  q0: {}\n" + "".join(rows), "q.yaml")
        assert str(caught.value) == "q.yaml:34:9  queues.q32.parent: 32 queues lie above it; at most 31 may"

    def test_windows_are_counted(self):
        """More than may be are refused: each is held against every node."""
        window = "  - {site: s, from: 2026-12-05, to: 2026-12-06}\n"
        with pytest.raises(BadInputError, match="maintenance"):
            read_policy("queues: {q: {}}\nmaintenance:\n" + window * (WINDOWS_MAX + 1), "q.yaml")


class TestFleet:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("queues: {q: {guarantee: {h80: 8}}}", "the fleet has no chip h80; did you mean h800?"),
            ("queues: {q: {}}\nworth: {h80: 2}", "the fleet has no chip h80; did you mean h800?"),
            ("queues: {q: {}}\nworth: {normalised: 2}", "the fleet has no chip normalised; it has h800"),
            ("queues: {q: {}}\nspares: {nroth: 1}", "the fleet has no site nroth; did you mean north?"),
        ],
    )
    def test_names_the_fleet_does_not_have_are_told(self, text, said):
        """A chip and a site that no fleet has are named with the nearest, wherever they stand."""
        assert check_policy(read_policy(text, "q"), ["h800"], ["north"], ()) == (said,)

    @pytest.mark.parametrize(
        ("narrowed", "said"),
        [
            ("rack: 1", ()),
            ("node: north-2", ()),
            ("rack: 2", ("site north has no node in the maintenance of rack 2",)),
            ("rack: 0, node: north-2", ("site north has no node in the maintenance of rack 0 node north-2",)),
            ("node: nroth-2", ("site north has no node in the maintenance of node nroth-2; did you mean north-2?",)),
        ],
    )
    def test_a_window_about_no_node_is_told(self, narrowed, said):
        """A misspelled node or a rack that isn't there would be at work in the maintenance that was meant for it."""
        nodes = [Node(name=f"north-{n + 1}", site="north", chip_class="c", chips=8, rack=n) for n in range(2)]
        text = f"queues: {{q: {{}}}}\nmaintenance: [{{site: north, {narrowed}, from: 2026-12-05, to: 2026-12-06}}]"
        assert check_policy(read_policy(text, "q"), ["h800"], ["north"], nodes) == said
