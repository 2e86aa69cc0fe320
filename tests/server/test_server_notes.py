"""What is in no record and people may want to know: notes of nodes, of ranks, of the planner."""

from pathlib import Path
from typing import Any

import pytest

from argosy.contracts.messages import Note
from argosy.contracts.talk import NodeNoted, OrderRefused, RankSaid
from argosy.server.api.events import _for
from argosy.server.feed import Feed
from argosy.server.ledger import NOTES_MAX, Rolls
from argosy.server.models import EventView, OwnEvent
from argosy.server.store import Store
from argosy.server.tokens import Holder
from support.serving import Served, fleet_of, served, wait, work_until


def event(name: str) -> EventView:
    """Make an event."""
    return EventView(id=name, at_us=1, kind="k", about="a", text="t")


def note(position: int) -> RankSaid:
    """Have a rank note something."""
    said = Note(rank=3, text="loss is nan")
    return RankSaid(number=position, attempt="job-1.1", generation=1, position=position, message=said)


class TestFeed:
    def test_a_note_stands_behind_the_newest_event(self) -> None:
        """Its id is the next of the same record, so that a reader goes on with what comes after."""

        async def story() -> list[str]:
            feed = Feed(lambda _seq: [])
            feed.publish([event("7.0"), event("7.1")])
            feed.note(event)
            feed.note(event)
            feed.publish([event("8.0")])
            found = [one.id async for one in bounded(feed, "7.1", 3)]
            return [*found, *[one.id async for one in bounded(feed, "7.2", 2)]]

        assert wait(story()) == ["7.2", "7.3", "8.0", "7.3", "8.0"]

    def test_a_note_of_the_last_server_is_passed_over(self) -> None:
        """A reader whose last event was a note goes on with the record after it."""

        async def story() -> list[str]:
            feed = Feed(lambda seq: [event("8.0")] if seq < 8 else [])
            feed.publish([event("9.0")])
            return [one.id async for one in bounded(feed, "7.5", 2)]

        assert wait(story()) == ["8.0", "9.0"]


async def bounded(feed: Feed, after: str, count: int):
    """Follow a feed for so many events."""
    async for one in feed.follow(after, 5.0):
        assert one is not None
        yield one
        count -= 1
        if not count:
            return


class TestRanks:
    def test_what_a_rank_notes_is_told_of_its_job(self, tmp_path: Path) -> None:
        """Once, with rank and node; beyond a bound people are told that no more comes."""
        nothing: Any = None
        told: list[tuple[str, str, str]] = []
        rolls = Rolls(Store(tmp_path / "s"), nothing, lambda *words: told.append(words))
        for position in range(1, NOTES_MAX + 5):
            rolls.take("n1", note(position))
            rolls.take("n1", note(position))
        assert told[0] == ("job.note", "job-1", "rank 3 on n1: loss is nan")
        assert len(told) == NOTES_MAX
        assert told[-1][2].endswith("; no more notes of this generation are told")

    @pytest.mark.parametrize(
        ("who", "text"),
        [("mary", "secret"), ("joe", ""), ("root", "secret")],
    )
    def test_its_words_are_its_owners(self, who: str, text: str) -> None:
        """Others see that there was a note, not what it says; and nobody sees the owner in it."""
        holder = Holder(token="t", name=who, role="admin" if who == "root" else "user")
        found = _for(holder, OwnEvent(id="1.0", at_us=1, kind="job.note", about="job-1", text="secret", owner="mary"))
        assert found is not None
        assert (found.text, "owner" in found.model_dump_json()) == (text, False)


@pytest.mark.slow
class TestService:
    def test_notes_reach_whoever_follows(self, tmp_path: Path) -> None:
        """What an agent notes of its node and of a rank, and an order that it refuses, are events."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                agents[0].report(NodeNoted, text="a disk is slow", level="warning")
                agents[0].report(OrderRefused, order="o", attempt="job-9.1", text="it is old")
                said = Note(rank=0, text="resumed")
                agents[0].report(RankSaid, attempt=f"{job['id']}.1", generation=1, position=1, message=said)
                await agents[0].talk()
                assert await notes(service, 3) == {
                    ("node.warning", "north-1", "a disk is slow"),
                    ("node.refused", "north-1", "job-9.1: it is old"),
                    ("job.note", job["id"], "rank 0 on north-1: resumed"),
                }

        wait(story())


async def notes(service: Served, count: int) -> set[tuple[str, str, str]]:
    """Follow events until so many notes came."""
    found = set()
    async for one in service.whole.service.feed.follow("0", 0.05):
        if one is not None and one.kind in ("node.warning", "node.refused", "job.note"):
            found.add((one.kind, one.about, one.text))
        if len(found) == count:
            break
    return found
