"""Reading queues.yaml: the example, every key, and every mistake with its place."""

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.policy import EVERY_KIND, Breaker, Policy
from argosy.contracts.policy_file import check_policy, read_policy

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
        ],
    )
    def test_each_mistake_says_what_is_allowed(self, text, words):
        """Every mistake names its place or what may stand there."""
        with pytest.raises(BadInputError) as caught:
            read_policy(text, "q.yaml")
        assert words in str(caught.value)

    def test_names_the_fleet_does_not_have_are_told(self):
        """A chip and a site that no fleet has are named with the nearest."""
        policy = read_policy("queues: {q: {guarantee: {h80: 8}}}\nspares: {nroth: 1}", "q")
        assert check_policy(policy, ["h800"], ["north"]) == (
            "the fleet has no chip h80; did you mean h800?",
            "the fleet has no site nroth; did you mean north?",
        )
