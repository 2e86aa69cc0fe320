"""Keeping like replicas once."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.codec import decode, encode
from argosy.contracts.plan import Exchange, Plan, Replica, Stage
from argosy.plan.folding import Folded, fold, unfold


def make_plan(depths: list[int], microbatches: list[int]) -> Plan:
    """Build a plan of four layers: a replica of each depth, all that hold a layer exchange it."""
    replicas = []
    for depth, count in zip(depths, microbatches, strict=True):
        cuts = [4 * s // depth for s in range(depth + 1)]
        stages = tuple(
            Stage(
                first_layer=first,
                end_layer=end,
                chip_class="a/x",
                forward_ms=1.0,
                backward_ms=2.0,
                backward_shares=(1.0,),
            )
            for first, end in pairwise(cuts)
        )
        replicas.append(Replica(stages=stages, microbatches=count, microbatch_size=1))
    exchanges = tuple(
        Exchange(
            unit=layer,
            members=tuple(
                (r, s)
                for r, replica in enumerate(replicas)
                for s, stage in enumerate(replica.stages)
                if stage.first_layer <= layer < stage.end_layer
            ),
            wire="w",
            wire_bytes=1.0,
        )
        for layer in range(4)
    )
    return Plan(
        model="tiny",
        num_layers=4,
        fleet="fleet",
        sequence_length=8,
        global_batch_size=sum(microbatches),
        replicas=tuple(replicas),
        exchanges=exchanges,
    )


class TestFold:
    def test_like_replicas_are_kept_once(self) -> None:
        """Replicas of like stages and micro-batches that stand side by side become one with a count."""
        folded = fold(make_plan([2, 2, 2, 1, 1], [3, 3, 2, 4, 4]))
        assert folded.counts == (2, 1, 2)
        assert [len(replica.stages) for replica in folded.plan.replicas] == [2, 2, 1]
        assert folded.plan.exchanges[0].members == ((0, 0), (1, 0), (2, 0))

    def test_an_uneven_exchange_is_kept(self) -> None:
        """Where like replicas exchange with different others, nothing is folded away that could not be told again."""
        plan = make_plan([1, 1, 1], [2, 2, 2])
        odd = Exchange(unit=9, members=((2, 0), (0, 0)), wire="w", wire_bytes=1.0)
        made = Plan(**{name: getattr(plan, name) for name in Plan.__slots__ if name != "exchanges"}, exchanges=(odd,))
        assert unfold(fold(made)) == made

    @given(st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 3)), min_size=1, max_size=8))
    @settings(derandomize=True, max_examples=40)
    def test_unfolding_gives_the_plan_back(self, replicas: list[tuple[int, int]]) -> None:
        """Whatever the replicas, the plan made of what was kept is the plan, also after a trip through JSON."""
        plan = make_plan([depth for depth, _ in replicas], [count for _, count in replicas])
        assert unfold(decode(encode(fold(plan)), Folded)) == plan
