"""Contracts from files that a person may have edited."""

import json

import pytest

from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan, Prediction, Replica, Stage
from argosy.contracts.strict import PROBLEMS_MAX, decode_strict


def plan():
    """Make a plan of one stage with a prediction."""
    stage = Stage(
        first_layer=0, end_layer=2, chip_class="a/cpu", forward_ms=1, backward_ms=2, backward_shares=(0.5, 0.5)
    )
    reference = {"reference_tokens_per_second": 1, "reference_name": "b"}
    told = Prediction(step_ms=1, tokens_per_second=1, mfu=1, efficiency=1, **reference)
    return Plan(
        model="m",
        num_layers=2,
        fleet="f",
        sequence_length=8,
        global_batch_size=1,
        replicas=(Replica(stages=(stage,), microbatches=1, microbatch_size=1),),
        prediction=told,
    )


def edited(change):
    """Change a plan's plain values and write them."""
    value = json.loads(encode(plan()))
    change(value)
    return json.dumps(value)


class TestStrict:
    def test_what_was_written_is_read(self):
        """A contract survives."""
        assert decode_strict(encode(plan()), Plan) == plan()

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda v: v.update(schedul="gpipe"), "schedul: unknown key; did you mean schedule?"),
            (
                lambda v: v["replicas"][0]["stages"][0].update(recomput="full"),
                "replicas[0].stages[0].recomput: unknown key; did you mean recompute?",
            ),
            (lambda v: v["prediction"].update(mfuu=1), "prediction.mfuu: unknown key; did you mean mfu?"),
            (lambda v: v["replicas"][0].update(zzz=1), "replicas[0].zzz: unknown key; allowed: stages, microbatches"),
        ],
    )
    def test_unknown_keys(self, change, text):
        """A key that isn't known was once passed over, so a misspelt one changed nothing; now it is refused."""
        with pytest.raises(BadInputError) as caught:
            decode_strict(edited(change), Plan)
        assert text in str(caught.value)

    def test_many_are_counted(self):
        """A file with very many of them still makes one short error."""
        with pytest.raises(BadInputError, match=f"and {100 - PROBLEMS_MAX} more"):
            decode_strict(edited(lambda v: v.update({f"zz{n}": n for n in range(100)})), Plan)

    def test_wrong_types_come_first(self):
        """What can't be read at all is told as the codec tells it."""
        with pytest.raises(BadInputError, match="not a Plan of version 1"):
            decode_strict(edited(lambda v: v.update(num_layers="two")), Plan)
