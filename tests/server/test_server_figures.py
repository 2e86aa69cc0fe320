"""What was foretold of an attempt beside what came of it: waits by time limits, costs by the chips' prices."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.contracts.codec import encode
from argosy.contracts.job_file import read_job
from argosy.contracts.messages import StepDone
from argosy.contracts.talk import RankSaid
from argosy.server import books
from argosy.server.annals import Annals
from argosy.server.launching import price_of
from argosy.server.measures import Roll, write_roll
from argosy.server.models import Figures
from argosy.server.store import Store
from support.cores import Core, policy, size
from support.serving import CHIP, ground

HOUR_US = 3_600_000_000
JOB = """kind: train
name: j
model: tiny
data: {files: x.txt, tokenizer: bytes}
train: {sequence_length: 100, global_batch_size: 10, steps: 1000, learning_rate: 1e-3}
"""


class TestWait:
    def test_what_starts_at_once_was_to_wait_for_nothing(self, tmp_path: Path) -> None:
        """A job that the first pass starts is foretold no wait."""
        core, store = Core(north_h800=2), Store(tmp_path / "s")
        follow(core, store)
        job = core.submit(size("north/h800", 2))
        assert store.read("SELECT id, foretold_us FROM attempt") == [(f"{job.id}.1", 0)]

    def test_time_limits_of_others_foretell_a_wait(self, tmp_path: Path) -> None:
        """A job that nodes are held for is foretold the end of who has them, once, whatever comes of it."""
        core, store = Core(north_h800=2), Store(tmp_path / "s")
        follow(core, store)
        first = core.submit(size("north/h800", 2), time_limit_us=HOUR_US)
        second = core.submit(size("north/h800", 2), time_limit_us=HOUR_US)
        core.wait(600)
        core.end(first)
        core.run()
        assert store.read("SELECT foretold_us, wait_us FROM attempt WHERE job = ?", (second.id,)) == [
            (HOUR_US, HOUR_US // 6)
        ]
        assert store.read("SELECT * FROM forecast") == []

    def test_without_time_limits_nobody_knows(self, tmp_path: Path) -> None:
        """Where who holds the nodes may hold them for ever, nothing is foretold."""
        core, store = Core(north_h800=2), Store(tmp_path / "s")
        follow(core, store)
        first, second = core.submit(size("north/h800", 2)), core.submit(size("north/h800", 2))
        core.end(first)
        core.run()
        assert store.read("SELECT foretold_us FROM attempt WHERE job = ?", (second.id,)) == [(None,)]
        (attempt,) = books.attempts_of(store, second.id, 0)
        assert (attempt.predicted.wait_s, attempt.wait_text) == (None, f"job ({first.id}) has no time limit")

    def test_one_that_nodes_are_held_for_later_is_foretold_then(self, tmp_path: Path) -> None:
        """What nothing could be foretold of at first is told as soon as a reservation lets time limits tell."""
        core, store = Core(policy(reservations=1), north_h800=2), Store(tmp_path / "s")
        follow(core, store)
        first, second, third = (core.submit(size("north/h800", 2), time_limit_us=HOUR_US) for _ in range(3))
        (text,) = store.read("SELECT text FROM untold WHERE about = ?", (third.id,))[0]
        assert text == "no nodes are held for it, so others may take those that fall free"
        for one in (first, second):
            core.wait(600)
            core.end(one)
            core.run()
        (attempt,) = books.attempts_of(store, third.id, 0)
        assert attempt.wait_text == ""
        # 600 s were over; the second was to take as large a part of its limit as the first did, a sixth.
        assert attempt.predicted.wait_s == pytest.approx(1200.0, abs=5.0)
        assert store.read("SELECT * FROM untold") == []


def follow(core: Core, store: Store) -> None:
    """Have the writes that go with every record carried out as it comes."""
    send, annals = core.send, Annals()

    def sent(kind, **fields):
        record = send(kind, **fields)
        store.commit((), annals(core.state, record))
        return record

    core.send = sent


class TestCost:
    @pytest.mark.parametrize(
        ("prices", "an_hour"),
        [((2.0,), 8.0), ((0.0,), 0.0), ((None,), None)],
        ids=["known", "free", "unknown"],
    )
    def test_nodes_cost_what_their_chips_do(self, prices: tuple[float | None], an_hour: float | None) -> None:
        """Two nodes of two chips each; one price that is not known leaves all unknown."""
        fleet = ground(2, chips=2)
        (chip_class,) = fleet.classes
        priced = replace(fleet, classes=(replace(chip_class, chip=replace(CHIP, price_per_hour=prices[0])),))
        assert price_of(priced, list(priced.nodes.values())) == an_hour

    @pytest.mark.parametrize(
        ("virtual_s", "cost"),
        [(None, 6.0), (90.0, 6.0 * 3 * 90 / 3600)],
        ids=["real chips for the time held", "emulated ones for that of their steps"],
    )
    def test_what_was_held_is_paid(self, tmp_path: Path, virtual_s: float | None, cost: float) -> None:
        """Chips of 6 an hour for an hour, three steps; predicted is what was left to do from the first of them."""
        roll = Roll()
        for number in range(3):
            done = StepDone(
                step=501 + number, loss=1, norm=1, learning_rate=1, tokens=1000, wall_s=30.0, virtual_s=virtual_s
            )
            roll.take("n", RankSaid(number=1, attempt="job-1.1", generation=1, position=number + 1, message=done), 0)
        attempt = attempt_with(Store(tmp_path / "s"), roll)
        assert attempt.measured.cost == pytest.approx(cost)
        assert attempt.measured.cost_per_trillion_tokens == pytest.approx(6 / 3600 * (virtual_s or 30.0) / 1000 * 1e12)
        assert attempt.predicted.cost == pytest.approx(500 * 1000 / 1e12 * 7e6)

    def test_an_attempt_that_runs_costs_up_to_now(self, tmp_path: Path) -> None:
        """Half an hour after it began a running attempt has cost half of an hour."""
        assert attempt_with(Store(tmp_path / "s"), Roll(), ended_us=None).measured.cost == 3.0


def attempt_with(store: Store, roll: Roll, ended_us: int | None = HOUR_US):
    """Keep an attempt of a training job, and look at it half an hour after it began."""
    job = "INSERT INTO job VALUES ('job-1', 1, 'j', 'o', 0, ?, '', '', '', NULL, '')"
    row = (json.dumps(["n"]), ended_us, Figures(cost_per_trillion_tokens=7e6).model_dump_json(), write_roll(roll))
    attempt = (
        "INSERT INTO attempt (id, generation, job, queue, owner, nodes, chips, began_us, ended_us, wait_us, "
        "price_per_hour, predicted, measured) VALUES ('job-1.1', 1, 'job-1', 'q', 'o', ?, 4, 0, ?, 0, 6.0, ?, ?)"
    )
    store.commit((), [(job, (encode(read_job(JOB, "job.yaml")),)), (attempt, row)])
    (found,) = books.attempts_of(store, "job-1", HOUR_US // 2)
    return found
