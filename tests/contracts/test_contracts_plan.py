"""What a plan says of itself."""

import pytest

from argosy.contracts.plan import EMBEDDING, Plan, Replica, Stage


def plan(*ends: int, tied: bool = True) -> Plan:
    """Build a plan of one replica whose stages end at these layers."""
    stages = tuple(
        Stage(
            first_layer=first,
            end_layer=end,
            chip_class="c",
            forward_ms=1,
            backward_ms=2,
            backward_shares=(),
        )
        for first, end in zip((0, *ends), ends, strict=False)
    )
    return Plan(
        model="m",
        num_layers=ends[-1],
        fleet="f",
        sequence_length=8,
        global_batch_size=4,
        replicas=(Replica(stages=stages, microbatches=4, microbatch_size=1),),
        tied_embeddings=tied,
    )


def held(made: Plan) -> list[tuple[int, ...]]:
    """List what each stage holds."""
    return [made.held_units(stage) for stage in made.replicas[0].stages]


class TestHeldUnits:
    def test_a_last_stage_holds_a_tied_embedding(self) -> None:
        """With tied embeddings the last stage holds a copy of the embedding, first; the middle does not."""
        assert held(plan(2, 4, 6)) == [(EMBEDDING, 0, 1), (2, 3), (EMBEDDING, 4, 5, 6)]

    def test_a_single_stage_holds_it_once(self) -> None:
        """Where one stage computes embedding and head, nothing is held twice."""
        assert held(plan(6)) == [tuple(range(EMBEDDING, 7))]

    @pytest.mark.parametrize("ends", [(4,), (1, 4), (1, 2, 4)])
    def test_untied(self, ends: tuple[int, ...]) -> None:
        """Without tied embeddings a stage holds what it computes, and every unit lies on one stage."""
        made = plan(*ends, tied=False)
        assert held(made) == [made.units(stage) for stage in made.replicas[0].stages]
        assert [unit for units in held(made) for unit in units] == list(range(EMBEDDING, 5))
