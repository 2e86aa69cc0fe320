"""The emulated clock by hand: boards, arrivals, barriers and gathers of small plans, without processes or waiting."""

from dataclasses import replace
from pathlib import Path

import pytest

from argosy.comm.clock import Board, EmulatedClock, RealClock, board_bytes
from argosy.comm.groups import seat_of
from argosy.contracts.plan import Exchange, Plan, Replica, Send, Wire
from argosy.plan.timing.schedules import place_order
from argosy.plan.timing.timeline import simulate
from support.phases import in_sites
from support.training import plan_of, replica

FORWARD_MS, BACKWARD_MS, UPDATE_MS, BARRIER_MS = 10.0, 20.0, 2.0, 0.5
# 1 Gb/s carries 125,000 bytes in 1 ms.
MS_BYTES = 125_000


def pipelines(schedule: str, count: int) -> tuple[list[Replica], dict[str, object]]:
    """Build so many unlike replicas for a schedule."""
    virtual = 2 if schedule == "interleaved" else 1
    layers = ([1, 1, 1, 1, 1, 1], [2, 1, 2, 1]) if virtual > 1 else ([1, 2, 3], [2, 4])
    replicas = [replica(layers[index % 2], (6, 4)[index % 2]) for index in range(count)]
    return replicas, {"schedule": schedule, "virtual": virtual}


def timed(replicas, *, exchanges=(), send_ms: float = 1.0, delay_ms: float = 3.0, **how) -> Plan:
    """Give a plan's stages and wires round times: forward 10 ms, backward 20 ms, update 2 ms, a send 1 ms + 3 ms."""
    plan = plan_of(replicas, **how)
    made = []
    for each in plan.replicas:
        stages = tuple(
            replace(
                stage,
                forward_ms=FORWARD_MS,
                backward_ms=BACKWARD_MS,
                update_ms=UPDATE_MS,
                backward_shares=(1 / len(plan.units(stage)),) * len(plan.units(stage)),
            )
            for stage in each.stages
        )
        sends = tuple(Send(wire="node", payload_bytes=send_ms * MS_BYTES) for _ in stages[1:])
        made.append(replace(each, stages=stages, sends=sends))
    wires = (Wire(name="node", gbps=1, one_way_ms=delay_ms), Wire(name="long", gbps=1, one_way_ms=0, shared=True))
    return replace(plan, replicas=tuple(made), wires=wires, exchanges=tuple(exchanges), barrier_ms=BARRIER_MS)


class Clocks:
    """All ranks' clocks of a plan in one process; virtual time runs ahead of no wall clock."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        path = folder / "board"
        path.write_bytes(bytes(board_bytes(plan)))
        self.plan = plan
        self.ranks = [EmulatedClock(plan, seat_of(plan, rank), Board(path, plan)) for rank in range(plan.world_size)]
        # So long ago that no deadline lies ahead: nothing sleeps.
        self.ranks[0].board.zero_s = -1e9

    def work(
        self, rank: int, kind: str, microbatch: int, *, stage: int | None = None, last: bool = False
    ) -> tuple[float, float]:
        """Let a rank do one piece of work; gives its virtual start and end."""
        clock = self.ranks[rank]
        stage = clock.seat.stage if stage is None else stage
        clock.begin(kind, stage, microbatch, last=last)
        clock.end(kind, stage, microbatch)
        return clock.began_ms(), clock.now_ms()

    def step(self) -> None:
        """Run one whole step of every rank, each as far as it can go in turn."""
        todo = {clock.seat.rank: self.order(clock) for clock in self.ranks}
        done: set[tuple[int, str, int, int]] = set()
        while any(todo.values()):
            for clock in self.ranks:
                rank = clock.seat.rank
                while todo[rank] and self.input_of(clock, *todo[rank][0]) <= done:
                    kind, stage, microbatch = todo[rank].pop(0)
                    whole = "W" if self.plan.schedule == "zero-bubble" else "B"
                    last = kind == whole and microbatch == clock.replica.microbatches - 1
                    self.work(rank, kind, microbatch, stage=stage, last=last)
                    done.add((rank, kind, stage, microbatch))
        for act in ("barrier", "updated", "gathered"):
            for clock in self.ranks:
                getattr(clock, act)()

    def later_step_ms(self) -> float:
        """Run four steps; gives what the last one took."""
        ends = []
        for _ in range(4):
            self.step()
            ends.append(self.ranks[0].now_ms())
        return ends[3] - ends[2]

    def order(self, clock: EmulatedClock) -> list[tuple[str, int, int]]:
        """Give a rank's work in the order of its schedule."""
        each, virtual = clock.replica, self.plan.virtual_stages
        places = len(each.stages) // virtual
        return list(place_order(self.plan.schedule, clock.seat.stage, places, each.microbatches, virtual))

    def input_of(self, clock: EmulatedClock, kind: str, stage: int, microbatch: int) -> set[tuple[int, str, int, int]]:
        """Say which work must be done before."""
        peer = stage + (-1 if kind == "F" else 1)
        if kind == "W" or not 0 <= peer < len(clock.replica.stages):
            return set()
        return {(clock.replica.stages[peer].ranks[clock.seat.tp_index], kind, peer, microbatch)}


@pytest.fixture
def clocks(tmp_path):
    """Give a maker of clocks."""
    return lambda plan: Clocks(plan, tmp_path)


class TestBoard:
    """What ranks share."""

    def test_is_two_steps_deep(self, tmp_path):
        """A board has a row a rank for each of two steps, with a slot for every forward and backward."""
        plan = timed([replica([3, 3], 4), replica([6], 2)])
        path = tmp_path / "board"
        path.write_bytes(bytes(board_bytes(plan)))
        assert Board(path, plan).times.shape == (2, 3, 2 + 1 + 2 * 4)

    def test_all_see_what_one_writes(self, tmp_path):
        """Zero and times written through one mapping are read through another."""
        plan = timed([replica([6], 1)])
        path = tmp_path / "board"
        path.write_bytes(bytes(board_bytes(plan)))
        mine, theirs = Board(path, plan), Board(path, plan)
        mine.zero_s = 12.5
        mine.times[1, 0, 2] = 7.0
        assert (theirs.zero_s, theirs.times[1, 0, 2]) == (12.5, 7.0)


class TestArrival:
    """When work may begin."""

    def test_first_stage_waits_for_nobody(self, clocks):
        """Forwards of a first stage follow one another."""
        made = clocks(timed([replica([3, 3], 2)]))
        assert [made.work(0, "F", m) for m in (0, 1)] == [(0, 10), (10, 20)]

    def test_next_stage_waits_for_the_wire(self, clocks):
        """A forward begins when its input, 1 ms of sending and 3 ms of delay after the peer's end, is there."""
        made = clocks(timed([replica([3, 3], 2)]))
        made.work(0, "F", 0)
        assert made.work(1, "F", 0) == (14, 24)

    def test_backward_comes_from_the_next_stage(self, clocks):
        """A backward waits for the gradient of the stage behind it."""
        made = clocks(timed([replica([3, 3], 1)]))
        for rank, kind in ((0, "F"), (1, "F"), (1, "B")):
            made.work(rank, kind, 0)
        assert made.work(0, "B", 0) == (14 + 10 + 20 + 4, 14 + 10 + 20 + 4 + 20)

    def test_sends_queue_on_a_slow_wire(self, clocks):
        """Where a send takes 15 ms and a forward 10, each later input arrives 15 ms after the one before."""
        made = clocks(timed([replica([3, 3], 3)], send_ms=15, delay_ms=0))
        for m in range(3):
            made.work(0, "F", m)
        assert [made.work(1, "F", m)[0] for m in range(3)] == [25, 40, 55]

    def test_tp_ranks_follow_their_own_peers(self, clocks):
        """Rank i of a TP group waits for rank i of the stage before."""
        made = clocks(timed([replica([3, 3], 2, tp=2)]))
        made.work(1, "F", 0)
        assert made.work(3, "F", 0) == (14, 24)


class TestBarrier:
    """When all gradients are summed."""

    def test_waits_for_the_last_backward(self, clocks):
        """Without exchanges the barrier is the latest end of all ranks, and the norm's all-reduce."""
        made = clocks(timed([replica([6], 2), replica([6], 1)]))
        made.step()
        assert {clock.now_ms() for clock in made.ranks} == {2 * 30 + BARRIER_MS + UPDATE_MS}

    def test_waits_for_an_exchange(self, clocks):
        """The embedding's gradient comes last, at the end of backward, and its exchange is added whole."""
        exchange = Exchange(unit=-1, members=((0, 0), (1, 0)), wire="long", wire_bytes=7 * MS_BYTES)
        made = clocks(timed([replica([6], 1), replica([6], 1)], exchanges=[exchange]))
        made.step()
        assert made.ranks[1].exchanges() == [(-1, pytest.approx(30), pytest.approx(37))]
        assert made.ranks[0].now_ms() == pytest.approx(37 + BARRIER_MS + UPDATE_MS)

    def test_an_early_gradient_travels_behind_backward(self, clocks):
        """The head's gradient is whole after an eighth of backward; an exchange that ends before it costs nothing."""
        exchange = Exchange(unit=6, members=((0, 0), (1, 0)), wire="long", wire_bytes=7 * MS_BYTES)
        made = clocks(timed([replica([6], 1), replica([6], 1)], exchanges=[exchange]))
        made.step()
        assert made.ranks[0].exchanges() == [(6, pytest.approx(12.5), pytest.approx(19.5))]
        assert made.ranks[0].now_ms() == pytest.approx(30 + BARRIER_MS + UPDATE_MS)

    def test_gather_holds_its_members_only(self, clocks):
        """After a sharded update those who gather wait 5 ms; a stage that gathers nothing goes on."""
        exchange = Exchange(unit=6, members=((0, 1), (1, 0)), wire="long", wire_bytes=0, gather_bytes=5 * MS_BYTES)
        made = clocks(timed([replica([3, 3], 2), replica([6], 1)], exchanges=[exchange]))
        made.step()
        first, *members = (clock.now_ms() for clock in made.ranks)
        assert members == [pytest.approx(first + 5)] * 2


class TestTimeline:
    """The clock plays what the timeline predicts."""

    @pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zero-bubble"])
    @pytest.mark.parametrize("gather", [0, 1], ids=["all-reduce", "ZeRO"])
    def test_steps_are_as_simulated(self, clocks, schedule, gather):
        """Every step of two unlike pipelines over a shared long link lasts what simulate says."""
        replicas, how = pipelines(schedule, 2)
        plan = timed(replicas, **how)
        exchanges = [
            Exchange(
                unit=unit,
                members=tuple(
                    (r, s)
                    for r, each in enumerate(plan.replicas)
                    for s, stage in enumerate(each.stages)
                    if unit in plan.held_units(stage)
                ),
                wire="long",
                wire_bytes=9 * MS_BYTES,
                gather_bytes=gather * 9 * MS_BYTES,
            )
            for unit in (-1, 0, 2, 6)
        ]
        plan = replace(plan, exchanges=tuple(exchanges))
        assert clocks(plan).later_step_ms() == pytest.approx(simulate(plan).step_ms, rel=1e-9)

    @pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
    @pytest.mark.parametrize("zero", [0, 1])
    def test_phases_are_as_simulated(self, clocks, schedule, zero):
        """So does one whose gradients cross two unlike sites by phases, each site gathering what it updated itself."""
        replicas, how = pipelines(schedule, 3)
        plan = in_sites(timed(replicas, zero=zero, **how), ("north", "south", "north"), unit_bytes=9 * MS_BYTES)
        assert any(exchange.phased for exchange in plan.exchanges)
        assert clocks(plan).later_step_ms() == pytest.approx(simulate(plan).step_ms, rel=1e-9)


class TestPace:
    """Virtual time and the wall clock."""

    def test_rank_0_sets_the_zero(self, clocks):
        """A later start keeps virtual time and lets it go on from now."""
        made = clocks(timed([replica([3, 3], 2)]))
        made.work(0, "F", 0)
        made.ranks[1].start()
        assert made.ranks[0].board.zero_s == -1e9
        made.ranks[0].start()
        assert made.ranks[0].board.zero_s > 0
        assert made.ranks[0].now_ms() == 10

    def test_sleeps_until_the_deadline(self, clocks, monkeypatch):
        """A rank that is 4 ms through its 10 ms sleeps for the 6 that are left; one that is late does not sleep."""
        slept = []
        monkeypatch.setattr("argosy.comm.clock.time.sleep", slept.append)
        made = clocks(timed([replica([6], 2)]))
        made.ranks[0].board.zero_s = 0.0
        for now_s in (0.004, 0.025):
            monkeypatch.setattr("argosy.comm.clock.time.monotonic", lambda now_s=now_s: now_s)
            made.work(0, "F", 0)
        assert slept == [pytest.approx(0.006)]


class TestRealClock:
    """Real chips need no pacing."""

    def test_knows_no_virtual_time(self):
        """It takes every call and tells no time."""
        clock = RealClock()
        clock.start()
        clock.begin("F", 0, 0)
        clock.end("F", 0, 0)
        clock.barrier()
        clock.updated()
        clock.gathered()
        assert (clock.now_ms(), clock.began_ms(), clock.exchanges()) == (None, None, [])
