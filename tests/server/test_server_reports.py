"""What ranks write and report, and what people follow: logs merged, roll-ups, the log's memory, the feed."""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.event import TermBegan
from argosy.contracts.messages import Finished, StepDone
from argosy.contracts.talk import LogPart, RankSaid
from argosy.control import core
from argosy.server.feed import LAST, Feed, place_of
from argosy.server.ledger import Rolls
from argosy.server.logs import Place, last_lines, new_lines
from argosy.server.measures import Roll, read_roll, write_roll
from argosy.server.memory import COMPACT_AFTER, Memory, line_of
from argosy.server.models import EventView
from argosy.server.store import Store
from support.serving import turns, wait


class Logs:
    """Logs of ranks that tests write to."""

    def __init__(self, **texts: bytes) -> None:
        self.texts = {int(name.removeprefix("r")): text for name, text in texts.items()}
        self.ended = False

    async def read(self, place: Place, offset: int, limit: int) -> LogPart:
        """Read a part; each byte was written at the second of its number."""
        text = self.texts[place.rank]
        begin = max(0, len(text) + offset) if offset < 0 else offset
        data = text[begin : begin + limit]
        marks = tuple((at, at * 1_000_000 + place.rank) for at in range(begin, begin + len(data)))
        return LogPart(
            number=1,
            order="o",
            attempt="a",
            rank=place.rank,
            offset=begin,
            data=data,
            next_offset=begin + len(data),
            size=len(text),
            ended=self.ended,
            marks=marks,
        )


def places(count: int, failed: int = -1) -> list[Place]:
    """Name where ranks' logs are."""
    return [Place(attempt="a", generation=1, rank=rank, node="n", first=rank == failed) for rank in range(count)]


class TestLogs:
    def test_lines_are_merged_by_time(self) -> None:
        """Those of the rank that failed first lead."""
        logs = Logs(r0=b"aa\nbb\n", r1=b"c\ndddd\n")
        lines = wait(last_lines(places(2), 10, logs.read))
        assert [(line.rank, line.text) for line in lines] == [(0, "aa"), (1, "c"), (1, "dddd"), (0, "bb")]
        failed = wait(last_lines(places(2, failed=1), 10, logs.read))
        assert [line.text for line in failed] == ["c", "dddd", "aa", "bb"]

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_the_end_of_a_line_longer_than_a_part_is_shown(self, end: bytes) -> None:
        """Nothing else is there to show, so what there is of it comes, marked."""
        logs = Logs(r0=b"short\n" + b"x" * 2_000_000 + b"y" + end)
        (line,) = wait(last_lines(places(1), 3, logs.read, more=False))
        assert line.text.startswith("[...] x")
        assert line.text.endswith("xy")

    def test_a_line_without_an_end_is_shown_unless_more_is_read(self) -> None:
        """A bar of progress is a line that never ends."""
        logs = Logs(r0=b"one\n30 %\r40 %")
        assert [line.text for line in wait(last_lines(places(1), 3, logs.read, more=False))] == ["one", "30 %\r40 %"]
        assert [line.text for line in wait(last_lines(places(1), 3, logs.read))] == ["one"]

    def test_a_line_without_an_end_does_not_fill_the_memory(self) -> None:
        """What is followed is passed on in pieces, and no more than one is kept."""
        logs, found = Logs(r0=b"z" * 3_000_000), places(1)

        async def story() -> list[str]:
            texts = [line.text for line in await last_lines(found, 3, logs.read)]
            told: list[bool] = []

            async def over() -> bool:
                told.append(True)
                return len(told) > 1

            async for lines in new_lines(found, over, logs.read):
                texts += [line.text for line in lines]
                logs.texts[0] += b"z" * 300_000 if len(told) == 1 else b""
            return texts

        assert wait(story())
        assert len(found[0].rest) < 65_536

    def test_only_the_last_lines_come(self) -> None:
        """A long log is read from near its end, where a line that was cut is left out."""
        logs = Logs(r0=b"".join(b"line %d\n" % number for number in range(1_000)))
        lines = wait(last_lines(places(1), 2, logs.read))
        assert [line.text for line in lines] == ["line 998", "line 999"]
        many = wait(last_lines(places(1), 10, logs.read))
        assert all(line.text.startswith("line ") for line in many)

    def test_a_line_is_told_once_it_is_whole(self) -> None:
        """What is written between two readings comes in the second; the last words come at the end."""

        async def story() -> list[str]:
            logs, found = Logs(r0=b"one\ntw"), places(1)
            told = [line.text for line in await last_lines(found, 10, logs.read)]
            logs.texts[0], logs.ended = b"one\ntwo\nlast", True

            async def over() -> bool:
                return True

            async for lines in new_lines(found, over, logs.read):
                told += [line.text for line in lines]
            return told

        assert wait(story()) == ["one", "two", "last"]

    @pytest.mark.parametrize(("live", "told"), [(True, []), (False, ["[rank 0 never began here]"])])
    def test_a_rank_without_a_log_may_yet_begin_while_its_attempt_lives(self, live: bool, told: list[str]) -> None:
        """Its node may not have heard of it; what it writes later is followed. Of what is over it is told at once."""
        logs, found = Logs(r0=b"late\n"), places(1)

        async def missing(place: Place, offset: int, limit: int) -> LogPart:
            part = await logs.read(place, 0, 0)
            return structs.replace(part, size=0, ended=True, text="rank 0 never began here")

        assert [line.text for line in wait(last_lines(found, 10, missing, live=live))] == told
        assert found[0].ended is not live

    @pytest.mark.parametrize("live", [True, False])
    def test_lines_that_came_a_moment_ago_have_a_time(self, live: bool) -> None:
        """Of what grows, what its node has not noted the time of yet was written about now."""

        async def read(place: Place, offset: int, limit: int) -> LogPart:
            return structs.replace(await Logs(r0=b"new\n").read(place, offset, limit), marks=())

        (line,) = wait(last_lines(places(1), 10, read, live=live))
        assert (line.at_us is not None) == live

    def test_a_reader_that_waits_has_nothing_read_for_it(self) -> None:
        """Logs are read on only when what was read before is gone."""

        async def story() -> int:
            logs, found = Logs(r0=b"one\n"), places(1)
            await last_lines(found, 10, logs.read)
            logs.texts[0] += b"two\n"
            reads = []

            async def read(place: Place, offset: int, limit: int) -> LogPart:
                reads.append(limit)
                return await logs.read(place, offset, limit)

            async def over() -> bool:
                return False

            following = new_lines(found, over, read)
            await anext(following)
            await turns()
            await following.aclose()
            return len(reads)

        assert wait(story()) == 1

    @pytest.mark.parametrize(("count", "most"), [(1, 200_000), (10_000, 4_096)])
    def test_very_many_logs_are_read_in_smaller_parts(self, count: int, most: int) -> None:
        """So that all of them together take bounded memory, whatever is asked for."""
        limits = set()

        async def read(place: Place, offset: int, limit: int) -> LogPart:
            limits.add((offset, limit))
            return await Logs(r0=b"one\n").read(places(1)[0], offset, limit)

        wait(last_lines(places(count), 1_000, read))
        assert limits == {(-most, most)}


def said(position: int, step: int, **more: Any) -> RankSaid:
    """Report a step."""
    done = StepDone(step=step, loss=1.0, norm=1.0, learning_rate=0.1, tokens=100, wall_s=2.0, **more)
    return RankSaid(number=position, attempt="a", generation=1, position=position, message=done)


class TestRoll:
    def test_a_report_that_comes_twice_counts_once(self) -> None:
        """Positions rise for each node."""
        roll = Roll()
        assert [roll.take("n", said(1, 1), 1), roll.take("n", said(1, 1), 1)] == [True, False]
        assert roll.steps == 1

    def test_the_first_step_is_not_timed(self) -> None:
        """Times are those of steps after the warm-up; on an emulated clock if there is one."""
        roll = Roll()
        for step in (1, 2, 3):
            roll.take("n", said(step, step, virtual_s=0.5), step)
        figures = roll.figures()
        assert (figures.step_ms, figures.tokens_per_second, figures.emulated) == (500.0, 200.0, True)
        assert (figures.steps, figures.loss) == (3, 1.0)

    def test_memory_is_that_of_the_fullest_rank(self) -> None:
        """The most that any rank took."""
        roll = Roll()
        for position, memory_gb in enumerate((1.0, 3.0, 2.0), 1):
            message = Finished(step=9, memory_gb=memory_gb)
            roll.take("n", RankSaid(number=1, attempt="a", generation=1, position=position, message=message), 1)
        assert roll.figures().memory_gb == 3.0

    def test_it_is_kept_as_it_was(self) -> None:
        """Written and read again, it goes on."""
        roll = Roll()
        roll.take("n", said(1, 1), 5)
        assert read_roll(write_roll(roll)) == roll
        assert read_roll(None) == Roll()


def event(seq: int, index: int = 0) -> EventView:
    """Make an event."""
    return EventView(id=f"{seq}.{index}", at_us=seq, kind="k", about="a", text="")


class Slow:
    """A loop whose writes end when a test says so."""

    def __init__(self) -> None:
        self.writes: list[Future[None]] = []

    def write(self, *_rows: Any) -> "Future[None]":
        """Begin a write."""
        self.writes.append(Future())
        return self.writes[-1]

    async def begun(self, count: int) -> "Future[None]":
        """Wait until so many writes have begun; give the last."""
        while len(self.writes) < count:
            await turns()
        return self.writes[count - 1]


class TestRolls:
    def test_a_report_is_told_to_be_safe_once_it_is_written(self, tmp_path: Path, monkeypatch: Any) -> None:
        """Also where it came while a write was under way, and where the one who asked first went away."""
        monkeypatch.setattr("argosy.server.ledger.GATHER_S", 0.0)

        async def story() -> None:
            slow: Any = Slow()
            rolls = Rolls(Store(tmp_path / "s"), slow, lambda *_words: None)
            rolls.take("n", said(1, 1))
            first = asyncio.ensure_future(rolls.flush())
            writing = await slow.begun(1)
            same = asyncio.ensure_future(rolls.flush())
            await turns()
            rolls.take("n", said(2, 2))
            later = asyncio.ensure_future(rolls.flush())
            await turns()
            assert [same.done(), later.done()] == [False, False]
            first.cancel()
            writing.set_result(None)
            await same
            assert not later.done()
            (await slow.begun(2)).set_exception(InfrastructureError("the disk is full"))
            with pytest.raises(InfrastructureError):
                await later
            again = asyncio.ensure_future(rolls.flush())
            (await slow.begun(3)).set_result(None)
            await again

        wait(story())


class TestMemory:
    def test_lines_of_the_last_server_count(self, tmp_path: Path) -> None:
        """A server that is started anew often takes snapshots all the same."""
        store = Store(tmp_path / "s")
        memory = Memory(store)
        state = memory.rebuilt()
        line = line_of(core.step(state, TermBegan(seq=1, now_us=1, term=1)))
        store.commit([line])
        memory = Memory(store)
        memory.grown(memory.rebuilt(), COMPACT_AFTER - 1)
        assert store.read("SELECT seq FROM snapshot") == [(1,)]


class TestFeed:
    def test_readers_go_on_after_the_last_they_saw(self) -> None:
        """Nothing twice and nothing left out, from the store where memory does not reach back."""

        async def story() -> list[str]:
            feed = Feed(lambda seq: [event(number) for number in range(1, 6) if number > seq])
            feed.publish([event(6), event(6, 1), event(7)])
            seen = []
            async for one in feed.follow("3.0", 0.01):
                if one is None:
                    break
                seen.append(one.id)
            return seen

        assert wait(story()) == ["4.0", "5.0", "6.0", "6.1", "7.0"]

    def test_a_quiet_stretch_in_the_store_is_passed(self) -> None:
        """The store gives a few at a time, the first of them seen already: what follows in it is not left out."""

        async def story() -> list[str]:
            stored = [event(10), event(16), event(17)]
            feed = Feed(lambda seq: [one for one in stored if place_of(one.id)[0] > seq][:1])
            feed.publish([event(20)])
            seen = []
            async for one in feed.follow("10.0", 0.01):
                if one is None:
                    break
                seen.append(one.id)
            return seen

        assert wait(story()) == ["16.0", "17.0", "20.0"]

    def test_a_reader_is_woken_by_what_comes(self) -> None:
        """From now on, without an id."""

        async def story() -> str:
            feed = Feed(lambda _seq: [])
            feed.publish([event(1)])
            stream = feed.follow("", 5.0)
            first = asyncio.ensure_future(anext(stream))
            asyncio.get_running_loop().call_later(0.05, feed.publish, [event(2)])
            found = await first
            return found.id if found else ""

        assert wait(story()) == "2.0"

    @pytest.mark.parametrize(
        ("name", "place"), [("3.4", (3, 4)), ("3", (3, 0)), ("", (0, 0)), ("x.y", (0, 0)), ("9" * 30, (LAST, 0))]
    )
    def test_ids_are_read_whatever_they_are(self, name: str, place: tuple[int, int]) -> None:
        """What is no id counts as the beginning."""
        assert place_of(name) == place
