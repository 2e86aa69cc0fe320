"""First weights: the same numbers under every split, drawn or read from a folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.comm.groups import make_groups, seat_of
from argosy.contracts.errors import BadInputError
from argosy.train.blocks import local_block
from argosy.train.exchange import view_of
from argosy.train.initial import draw
from argosy.train.stage import make_stage
from argosy.train.tensor_parallel import local_tensor
from argosy.train.weights.exporting import export_hf
from argosy.train.weights.names import parameter_shapes
from support.training import config, drawn_replicas, job, losses, plan, plan_of, replica, run_plan, shape_of, tokens
from support.worlds import PEER_TIMEOUT, in_world

TEXT = config(4)
SHAPE = shape_of(TEXT)
CPU = torch.device("cpu")


def drawn(name: str, sizes=(64, 32), *, seed: int = 0, layers: int = 4) -> torch.Tensor:
    """Draw one parameter."""
    return draw(replace(SHAPE, num_layers=layers), seed, name, sizes)


class TestDraw:
    """What a name gives."""

    def test_depends_on_seed_and_name_alone(self):
        """The same seed and name give the same numbers, another of either gives others."""
        name = "layers.1.mlp.up.weight"
        assert torch.equal(drawn(name), drawn(name))
        assert not torch.equal(drawn(name), drawn(name, seed=1))
        assert not torch.equal(drawn(name), drawn("layers.2.mlp.up.weight"))

    def test_leaves_torchs_own_stream_alone(self):
        """Drawing weights moves no global random state."""
        before = torch.random.get_rng_state()
        drawn("head.weight")
        assert torch.equal(before, torch.random.get_rng_state())

    @pytest.mark.parametrize(
        ("name", "deviation"),
        [("layers.0.mlp.up.weight", 0.02), ("layers.0.mlp.down.weight", 0.02 / 8**0.5), ("embedding.weight", 0.02)],
    )
    def test_deviation(self, name, deviation):
        """Matrices have deviation 0.02; those that write to the residual stream less, by sqrt(2 x 4 layers)."""
        matrix = drawn(name, (256, 256))
        assert matrix.std().item() == pytest.approx(deviation, rel=0.02)
        assert matrix.mean().abs() < deviation / 50

    @pytest.mark.parametrize(
        ("name", "value"),
        [("norm.weight", 1), ("layers.0.attention.q_norm.weight", 1), ("layers.0.attention.q.bias", 0)],
    )
    def test_vectors(self, name, value):
        """Norms begin at one, biases at zero."""
        assert set(drawn(name, (8,)).tolist()) == {value}


class TestAnySplit:
    """A rank's part is cut out of the same whole."""

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(replicas=drawn_replicas(4, replicas_max=2, degrees=(1,)), tied=st.booleans())
    def test_stages(self, replicas, tied):
        """Every parameter on every stage of every plan is the one that its name draws."""
        text = config(4, tied=tied)
        the_plan = plan_of(replicas, text)
        for rank in range(the_plan.world_size):
            stage = make_stage(the_plan, job(), seat_of(the_plan, rank), shape_of(text), None, CPU)
            assert all(torch.equal(p, drawn(name, tuple(p.shape))) for name, p in stage.parameters.items())

    @pytest.mark.slow
    @pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
    def test_tp_slices(self, tied):
        """What lies on each of two TP ranks is its slice of the whole."""
        text = config(4, tied=tied, qk_norm=True)
        the_plan = plan_of([replica([4], 1, tp=2)], text)

        def parts(rank: int):
            seat = seat_of(the_plan, rank)
            group = make_groups(the_plan, seat, PEER_TIMEOUT).tensor
            stage = make_stage(the_plan, job(), seat, shape_of(text), group, CPU)
            return {name: local_tensor(p).tolist() for name, p in stage.parameters.items()}

        for rank, found in enumerate(in_world(2, parts)):
            assert found.keys() == parameter_shapes(shape_of(text)).keys()
            for name, part in found.items():
                sizes = parameter_shapes(shape_of(text))[name]
                whole = local_block(plan_of([replica([4], 1)]), seat_of(the_plan, 0), name, sizes)
                block = local_block(the_plan, seat_of(the_plan, rank), name, sizes)
                assert torch.equal(torch.tensor(part), view_of(drawn(name, sizes), whole, block)), name


@pytest.fixture
def folder(tmp_path) -> Path:
    """Write weights of seed 5 as a Hugging Face folder."""
    weights = ((name, drawn(name, sizes, seed=5)) for name, sizes in parameter_shapes(SHAPE).items())
    export_hf(weights, config_text=TEXT, tokenizer=None, to=tmp_path / "weights", dtype="fp32")
    return tmp_path / "weights"


class TestFolder:
    """Weights from files."""

    @pytest.mark.slow
    @pytest.mark.parametrize("tp", [1, 2])
    def test_trains_alike_under_any_plan(self, folder, tmp_path, tp):
        """Exported weights trained in two stages, with TP or without, give one process's curve, not the seed's."""
        spec = job(steps=3, batch=2)
        data = tokens(tmp_path / "tokens")
        imported = replace(spec, initial_weights=str(folder))
        the_plan = plan(SHAPE, [replica([2, 2], 2, tp=tp)], spec.train)
        found = losses(run_plan(the_plan, imported, TEXT, data, tmp_path))
        one = plan(SHAPE, [replica([4], 2)], spec.train)
        assert found == pytest.approx(losses(run_plan(one, imported, TEXT, data, tmp_path)), rel=1e-5)
        assert found[0] != pytest.approx(losses(run_plan(one, spec, TEXT, data, tmp_path))[0], rel=1e-5)

    def test_is_read_exactly(self, folder):
        """Every parameter is what the file holds, not what the job's seed draws."""
        the_plan = plan_of([replica([4], 1)], TEXT)
        stage = make_stage(
            the_plan, replace(job(), initial_weights=str(folder)), seat_of(the_plan, 0), SHAPE, None, CPU
        )
        assert all(torch.equal(p, drawn(n, tuple(p.shape), seed=5)) for n, p in stage.parameters.items())

    def test_another_models_weights(self, folder):
        """A folder of a model with fewer layers is refused, naming what is missing."""
        other = shape_of(json.dumps(json.loads(TEXT) | {"num_hidden_layers": 5}))
        the_plan = plan_of([replica([5], 1)], config(5))
        with pytest.raises(BadInputError, match=r"layers\.4\."):
            make_stage(the_plan, replace(job(), initial_weights=str(folder)), seat_of(the_plan, 0), other, None, CPU)
