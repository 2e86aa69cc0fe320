"""Plan invariance: whatever the plan, the loss curve is that of one process training the same batches."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.comm.clock import board_bytes
from argosy.contracts.plan import TRAINER_SCHEDULES, Replica
from support.emulation import emulated_plan
from support.phases import in_sites
from support.training import config, job, losses, plan, reference_losses, replica, run_plan, shape_of, tokens

STEPS = 20
TOLERANCE = 1e-5
LAYERS = 6


@pytest.fixture(scope="session")
def token_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a small token set."""
    return tokens(tmp_path_factory.mktemp("tokens"))


@cache
def reference(text: str, batch: int, folder: Path) -> tuple[float, ...]:
    """Train once in a plain loop for each model and batch size."""
    return tuple(reference_losses(shape_of(text), job(steps=STEPS, batch=batch), folder))


def check(
    replicas: Sequence[Replica],
    folder: Path,
    directory: Path,
    text: str,
    *,
    schedule: str = "1f1b",
    zero: int = 0,
    bucket_bytes: int = 0,
    virtual: int = 1,
    sites: Sequence[str] = (),
) -> None:
    """Run a plan and compare every step's loss with the plain loop's; gradients cross sites, if given, by phases."""
    batch = sum(each.sequences for each in replicas)
    spec = job(steps=STEPS, batch=batch)
    how: dict[str, Any] = {"schedule": schedule, "zero": zero, "bucket_bytes": bucket_bytes, "virtual": virtual}
    the_plan = plan(shape_of(text), replicas, spec.train, **how)
    the_plan = in_sites(the_plan, sites) if sites else the_plan
    measured = losses(run_plan(the_plan, spec, text, folder, directory))
    assert measured == pytest.approx(reference(text, batch, folder), rel=TOLERANCE)


@pytest.mark.slow
class TestFixedPlans:
    """The plans that the design names."""

    def test_one_process(self, token_folder, tmp_path):
        """One rank trains as the plain loop does."""
        check([replica([LAYERS], 8)], token_folder, tmp_path, config(LAYERS))

    def test_uneven_pipeline(self, token_folder, tmp_path):
        """Stages of 1, 2 and 3 layers train as one process does."""
        check([replica([1, 2, 3], 8)], token_folder, tmp_path, config(LAYERS))

    def test_replicas_of_different_shapes(self, token_folder, tmp_path):
        """Three stages with 6 micro-batches beside two with 2 give exactly the global batch's gradient."""
        check([replica([1, 2, 3], 6), replica([2, 4], 2)], token_folder, tmp_path, config(LAYERS))

    def test_tensor_and_pipeline_parallel(self, token_folder, tmp_path):
        """A replica of two stages with TP 2 trains beside one without TP, optimizer sharded."""
        replicas = [replica([2, 4], 3, tp=2), replica([LAYERS], 5)]
        check(replicas, token_folder, tmp_path, config(LAYERS), zero=1)

    def test_gpipe_with_few_microbatches(self, token_folder, tmp_path):
        """GPipe runs fewer micro-batches than stages, beside a larger micro-batch size."""
        replicas = [replica([2, 2, 2], 2, size=2), replica([3, 3], 4)]
        check(replicas, token_folder, tmp_path, config(LAYERS), schedule="gpipe")

    def test_tied_embeddings(self, token_folder, tmp_path):
        """A tied embedding on first and last stages of unlike replicas stays one weight, counted once in the norm."""
        replicas = [replica([1, 2, 3], 6), replica([2, 4], 2)]
        check(replicas, token_folder, tmp_path, config(LAYERS, tied=True), zero=1, bucket_bytes=2**22)

    def test_virtual_stages(self, token_folder, tmp_path):
        """Interleaved pipelines of two and three places, the optimizer sharded, train as one process does."""
        replicas = [replica([1, 1, 2, 2], 4), replica([1, 1, 1, 1, 1, 1], 3)]
        text = config(LAYERS, tied=True)
        check(replicas, token_folder, tmp_path, text, schedule="interleaved", virtual=2, zero=1)

    def test_virtual_stages_with_tensor_parallel(self, token_folder, tmp_path):
        """Three virtual stages a place with TP 2 train as one process does."""
        replicas = [replica([1, 1, 1, 1, 1, 1], 4, tp=2)]
        check(replicas, token_folder, tmp_path, config(LAYERS), schedule="interleaved", virtual=3)

    def test_zero_bubble(self, token_folder, tmp_path):
        """Weights' gradients made apart, with TP, recompute and sharded optimizer, are those of one process."""
        replicas = [replica([1, 2, 3], 6), replica([2, 4], 4, tp=2)]
        again = replace(replicas[0], stages=tuple(replace(s, recompute="full") for s in replicas[0].stages))
        text = config(LAYERS, tied=True)
        check([again, replicas[1]], token_folder, tmp_path, text, schedule="zero-bubble", zero=1)

    def test_across_sites(self, token_folder, tmp_path):
        """Pipelines of two kinds of emulated chips that exchange over a long link train as one process does."""
        text, the_plan = emulated_plan([replica([2, 3, 3], 5), replica([4, 4], 3)], layer_ms=0.5)
        board = tmp_path / "board"
        board.write_bytes(bytes(board_bytes(the_plan)))
        reports = run_plan(the_plan, job(steps=STEPS, batch=8), text, token_folder, tmp_path, board=str(board))
        assert losses(reports) == pytest.approx(reference(text, 8, token_folder), rel=TOLERANCE)

    @pytest.mark.parametrize("zero", [0, 1])
    def test_across_sites_by_phases(self, token_folder, tmp_path, zero):
        """Sums that run inside sites, across and inside again, over sites of 2 and 3 unlike replicas, change no loss.

        With the optimizer sharded inside each site too, a tied embedding, TP and buckets that hold several units.
        """
        text, spec = config(LAYERS, tied=True), job(steps=STEPS, batch=12)
        replicas = [replica([2, 4], 4), replica([6], 3), replica([6], 1, tp=2), replica([3, 3], 2), replica([6], 2)]
        how: dict[str, Any] = {"zero": zero, "bucket_bytes": 30_000}
        the_plan = in_sites(
            plan(shape_of(text), replicas, spec.train, **how), ("north", "south", "north", "south", "south")
        )
        assert all(exchange.phased for exchange in the_plan.exchanges)
        measured = losses(run_plan(the_plan, spec, text, token_folder, tmp_path))
        assert measured == pytest.approx(reference(text, 12, token_folder), rel=TOLERANCE)

    def test_query_and_key_norms(self, token_folder, tmp_path):
        """Norms inside TP-split attention see the gradient of all heads."""
        text = config(LAYERS, tied=True, qk_norm=True)
        check([replica([LAYERS], 4, tp=2), replica([2, 4], 4)], token_folder, tmp_path, text)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Replica], str, dict[str, Any]]:
    """Draw up to three replicas of any stage split that fit on a few processes, and how they train."""
    schedule = draw(st.sampled_from(TRAINER_SCHEDULES))
    virtual = 2 if schedule == "interleaved" else 1
    replicas: list[Replica] = []
    ranks = 0
    for _ in range(draw(st.integers(1, 3))):
        places = draw(st.integers(virtual, 3))
        tp = draw(st.sampled_from([1, 1, 1, 2]))
        if ranks + places * tp > 6:
            break
        ranks += places * tp
        cut = st.lists(st.integers(1, LAYERS - 1), min_size=(n := places * virtual - 1), max_size=n, unique=True)
        cuts = sorted(draw(cut))
        counts = [end - start for start, end in zip([0, *cuts], [*cuts, LAYERS], strict=True)]
        microbatches = draw(st.integers(1 if schedule == "gpipe" else places, 5))
        if virtual > 1:
            microbatches -= microbatches % places
        if schedule == "zero-bubble":
            microbatches -= microbatches % (microbatches // places)
        replicas.append(replica(counts, microbatches, size=draw(st.integers(1, 2)), tp=tp))
    text = config(LAYERS, tied=draw(st.booleans()), qk_norm=draw(st.booleans()))
    how = {"schedule": schedule, "zero": draw(st.integers(0, 1)), "bucket_bytes": draw(st.sampled_from([0, 50_000]))}
    sites = [draw(st.sampled_from(["north", "south"])) for _ in replicas] if draw(st.booleans()) else []
    return replicas, text, how | {"virtual": virtual, "sites": sites}


@pytest.mark.slow
class TestDrawnPlans:
    """Plans that nobody thought of."""

    @settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(drawn=runs())
    def test_any_plan(self, drawn, token_folder, tmp_path):
        """Any split into replicas, stages, TP and micro-batches gives the plain loop's losses."""
        replicas, text, how = drawn
        check(replicas, token_folder, tmp_path, text, **how)
