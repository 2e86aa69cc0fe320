"""The desk: what counts of what agents say, what they are told, and how long they wait for it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.event import NodeSeen
from argosy.contracts.talk import Answer, NodeNoted, OrderRefused, ReadLog, StartRun, StopAttempt, Talk
from argosy.server import desk
from argosy.server.compare import Found
from support.serving import FakeAgent, Served, fleet_of, ground, served, turns, wait, work_until

pytestmark = pytest.mark.slow
Story = Callable[[Served, FakeAgent], Any]


def told(folder: Path, story: Story) -> Any:
    """Run a story with a service and one agent that has joined."""

    async def whole() -> Any:
        async with served(folder) as service:
            (agent,) = await fleet_of(service, 1)
            return await story(service, agent)

    return wait(whole())


def talk(agent: FakeAgent, number: int, **more: Any) -> Talk:
    """Make a talk of an agent."""
    return Talk(session=agent.session, number=number, boot_id=agent.boot, sent_us=1, **more)


def desk_of(service: Served) -> desk.Desk:
    """Give a service's desk."""
    return service.whole.service.front.desk


async def settled(service: Served) -> None:
    """Let all that asked the loop have its answer and go on."""
    for _ in range(3):
        await turns()
        await asyncio.wrap_future(service.whole.service.loop.ask(lambda _state: None))
    await turns()


class TestTalks:
    def test_a_talk_that_was_overtaken_counts_for_nothing(self, tmp_path: Path) -> None:
        """The higher number is the newer, whichever arrives first; the old one gets no orders."""

        async def story(service: Served, agent: FakeAgent) -> None:
            job = await service.submit()
            await work_until(service, [agent], job["id"], "running")
            held = tuple(agent.held.values())
            await desk_of(service).talk(agent.node, talk(agent, agent.number + 2, held=held))
            late = await desk_of(service).talk(agent.node, talk(agent, agent.number + 1))
            assert late.orders == ()
            assert set(desk_of(service).held_of(agent.node)) == {f"{job['id']}.1"}

        told(tmp_path, story)

    def test_a_new_session_counts_from_one(self, tmp_path: Path) -> None:
        """An agent's next process begins its numbers anew, and is heard."""

        async def story(service: Served, agent: FakeAgent) -> Answer:
            for _ in range(5):
                await agent.talk()
            agent.session, agent.number, agent.reported = "next", 0, 0
            agent.report(NodeNoted, text="hello again")
            return await agent.talk()

        assert told(tmp_path, story).acknowledged == 1

    def test_an_answer_waits_for_an_order(self, tmp_path: Path) -> None:
        """It comes as soon as there is one, long before the wait is over."""

        async def story(service: Served, agent: FakeAgent) -> list[type]:
            await agent.talk()
            waiting = asyncio.create_task(agent.talk(wait_s=5.0))
            await asyncio.wait_for(asyncio.wrap_future(service.loop.ask(lambda state: state.seq)), 5)
            await service.submit()
            while not any(isinstance(order, StartRun) for order in agent.orders):
                await waiting
                waiting = asyncio.create_task(agent.talk(wait_s=5.0))
            waiting.cancel()
            return [type(order) for order in agent.orders]

        assert told(tmp_path, story) == [StartRun]

    def test_an_answer_does_not_wait_for_a_disk_that_hangs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Leases go on meanwhile; what is to be done is said once the loop is back."""
        monkeypatch.setattr(desk, "HURRY_S", 0.0)

        async def story(service: Served, agent: FakeAgent) -> list[list[type]]:
            await agent.talk()
            hangs = threading.Event()
            waiting = service.loop.ask(lambda _state: hangs.wait(60))
            agent.hold("job-99.1", 1, "running", ())
            answers = [await desk_of(service).talk(agent.node, talk(agent, 90, held=tuple(agent.held.values())))]
            hangs.set()
            await asyncio.wrap_future(waiting)
            answers.append(
                await desk_of(service).talk(agent.node, talk(agent, 91, held=tuple(agent.held.values()), wait_s=5.0))
            )
            return [[type(order) for order in answer.orders] for answer in answers]

        assert told(tmp_path, story) == [[], [StopAttempt]]

    def test_a_newer_talk_releases_the_older(self, tmp_path: Path) -> None:
        """Two are under way at once; the one that was waiting is answered empty."""

        async def story(service: Served, agent: FakeAgent) -> tuple[Answer, Answer]:
            await agent.talk()
            first = asyncio.create_task(desk_of(service).talk(agent.node, talk(agent, 50, wait_s=5.0)))
            second = asyncio.create_task(desk_of(service).talk(agent.node, talk(agent, 51)))
            return await first, await second

        assert [answer.orders for answer in told(tmp_path, story)] == [(), ()]

    def test_a_new_session_releases_the_older_talk(self, tmp_path: Path) -> None:
        """An agent that begins anew counts from one again: what is meant for it isn't told to its dead process."""

        async def story(service: Served, agent: FakeAgent) -> list[list[type]]:
            talks = []
            for session in ("old", "new"):
                agent.session = session
                talks.append(asyncio.create_task(desk_of(service).talk(agent.node, talk(agent, 1, wait_s=5.0))))
                await settled(service)
            read = asyncio.create_task(desk_of(service).read_log(agent.node, "job-1.1", 0, 0, 0, 1))
            answers = [await one for one in talks]
            read.cancel()
            return [[type(order) for order in answer.orders] for answer in answers]

        assert told(tmp_path, story) == [[], [ReadLog]]

    def test_an_order_is_not_repeated_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It may still be on its way; after a while it is said again."""

        async def story(service: Served, agent: FakeAgent) -> list[int]:
            monkeypatch.setattr(agent.__class__, "obey", lambda _self, _order: None)
            await service.submit()
            while not agent.orders:
                await agent.talk(wait_s=0.2)
            await agent.talk()
            counts = [len(agent.orders)]
            monkeypatch.setattr(desk, "RESEND_S", 0.0)
            await agent.talk(wait_s=1.0)
            return [*counts, len(agent.orders)]

        assert told(tmp_path, story) == [1, 2]

    def test_the_end_lets_everybody_go(self, tmp_path: Path) -> None:
        """A server that ends answers all who wait."""

        async def story(service: Served, agent: FakeAgent) -> Answer:
            await agent.talk()
            waiting = asyncio.create_task(agent.talk(wait_s=5.0))
            await asyncio.wait_for(asyncio.wrap_future(service.loop.ask(lambda state: state.seq)), 5)
            service.whole.service.release()
            return await asyncio.wait_for(waiting, 4.0)

        assert told(tmp_path, story).orders == ()


class TestReports:
    def test_what_agents_note_is_for_people(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Refused orders and notes are logged with the node's name."""

        async def story(_service: Served, agent: FakeAgent) -> Answer:
            agent.report(NodeNoted, text="disk is slow", level="warning")
            agent.report(OrderRefused, order="o", attempt="job-1.1", text="too old")
            return await agent.talk()

        with caplog.at_level("INFO", "argosy.server"):
            assert told(tmp_path, story).acknowledged == 2
        assert "node.warning north-1: disk is slow" in caplog.text
        assert "node.refused north-1: job-1.1: too old" in caplog.text

    def test_a_job_that_a_node_refuses_to_start_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A job stood in `preparing` for ever, and only the server's log knew that its node obeyed nobody."""

        async def story(service: Served, agent: FakeAgent) -> list[str]:
            monkeypatch.setattr(agent.__class__, "obey", lambda _self, _order: None)
            job = (await service.submit())["id"]
            while not agent.orders:
                await agent.talk(wait_s=0.2)
            agent.report(OrderRefused, order=agent.orders[0].id, attempt=agent.orders[0].attempt, text="too old")
            await agent.talk()
            found = (await service.http.get(f"/v1/jobs/{job}/explain")).json()
            return [found["state"], found["text"]]

        assert told(tmp_path, story) == ["preparing", "north-1 refused an order: too old"]

    def test_a_busy_server_takes_no_reports(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Back-pressure: the next talk may bring none."""
        monkeypatch.setattr(desk, "BUSY", 0)

        async def story(_service: Served, agent: FakeAgent) -> int:
            return (await agent.talk()).reports_max

        assert told(tmp_path, story) == 0

    def test_the_lease_is_the_policys(self, tmp_path: Path) -> None:
        """A changed policy changes it at once."""

        async def story(service: Served, agent: FakeAgent) -> list[float]:
            before = (await agent.talk()).lease_s
            body = {"document": "queues: {default: {}}\nlease: 90s\n"}
            assert (await service.http.put("/v1/queues", json=body)).status_code == 200
            return [before, (await agent.talk()).lease_s]

        assert told(tmp_path, story) == [30.0, 90.0]


class TestTwoOfOneKey:
    def test_another_host_is_refused_while_the_first_is_heard(self, tmp_path: Path) -> None:
        """A copied folder's agent gets no orders; after a silence it may be that the host was booted."""

        async def story(service: Served, agent: FakeAgent) -> tuple[str, int]:
            copy = FakeAgent(service, "copy", session="c", boot="boot-2", key=agent.key, node=agent.node)
            with pytest.raises(BadInputError, match=r"another agent talks with the key of node north-1.*copied"):
                await desk_of(service).talk(agent.node, talk(copy, 1))
            await agent.talk()
            desk_of(service).excuse(-2 * desk.DOWN_AFTER_S)
            await desk_of(service).talk(agent.node, talk(copy, 2))
            return desk_of(service)._agent(agent.node).session, (await agent.post("/agent/v1/talk", b"")).status_code

        assert told(tmp_path, story) == ("c", 422)

    def test_on_one_host_the_newer_process_counts(self, tmp_path: Path) -> None:
        """A process that another one followed is not heard again, so that they don't take turns."""

        async def story(service: Served, agent: FakeAgent) -> None:
            await desk_of(service).talk(agent.node, talk(FakeAgent(service, "next", session="n", boot=agent.boot), 1))
            with pytest.raises(BadInputError, match="another agent talks with the key of node north-1"):
                await desk_of(service).talk(agent.node, talk(agent, agent.number + 1))
            desk_of(service).excuse(-2 * desk.DOWN_AFTER_S)
            await desk_of(service).talk(agent.node, talk(agent, agent.number + 2))

        told(tmp_path, story)

    def test_one_that_left_in_order_is_followed_at_once(self, tmp_path: Path) -> None:
        """A host that is booted in order need not wait."""

        async def story(service: Served, agent: FakeAgent) -> str:
            await desk_of(service).talk(agent.node, talk(agent, agent.number + 1, leaving=True))
            await desk_of(service).talk(agent.node, talk(FakeAgent(service, "a", session="n", boot="boot-2"), 1))
            return desk_of(service)._agent(agent.node).session

        assert told(tmp_path, story) == "n"


class TestSilence:
    def test_a_silent_node_is_told_of_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After the limit, and again only after it was heard."""

        async def story(service: Served, agent: FakeAgent) -> list[list[str]]:
            monkeypatch.setattr(desk, "DOWN_AFTER_S", -1.0)
            found = [desk_of(service).silent(), desk_of(service).silent()]
            await agent.talk()
            return [*found, desk_of(service).silent()]

        assert told(tmp_path, story) == [["north-1"], [], ["north-1"]]

    def test_time_in_which_the_server_stood_still_is_no_silence(self, tmp_path: Path) -> None:
        """A server that was stopped for a while and goes on takes no node for lost that could not reach it."""

        async def story(service: Served, agent: FakeAgent) -> list[list[str]]:
            tended = desk_of(service)
            tended._agent(agent.node).heard_s -= 2 * desk.DOWN_AFTER_S
            tended.excuse(2 * desk.DOWN_AFTER_S)
            excused = tended.silent()
            tended._agent(agent.node).heard_s -= 2 * desk.DOWN_AFTER_S
            return [excused, tended.silent()]

        assert told(tmp_path, story) == [[], ["north-1"]]

    def test_a_node_that_comes_back_in_time_keeps_its_job(self, tmp_path: Path) -> None:
        """Down and up again before anything was replaced, the same generation goes on."""

        async def story(service: Served, agent: FakeAgent) -> dict[str, Any]:
            job = await service.submit()
            await work_until(service, [agent], job["id"], "running")
            await asyncio.wrap_future(service.loop.send(NodeSeen, node=agent.node, observed="down"))
            assert (await service.job(job["id"]))["state"] == "recovering"
            desk_of(service).touch([agent.node])
            await agent.talk()
            async for _ in service.whole.service.feed.follow("0.0", 0.1):
                found = await service.job(job["id"])
                if found["state"] == "running":
                    return found
            return {}

        assert told(tmp_path, story)["generation"] == 1

    def test_logs_of_a_silent_node_are_refused(self, tmp_path: Path) -> None:
        """The error says where they lie."""

        async def story(service: Served, _agent: FakeAgent) -> None:
            with pytest.raises(InfrastructureError, match="node north-2 does not answer, and its logs lie there"):
                await desk_of(service).read_log("north-2", "a", 1, 0, 0, 10)

        told(tmp_path, story)


class TestSweep:
    def test_every_node_has_its_turn(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A share of all at each call; where something is to be done, the node is compared again and answered."""

        async def story() -> list[list[str]]:
            async with served(tmp_path, ground(4)) as service:
                tended = desk_of(service)
                for agent in await fleet_of(service, 4):
                    await agent.talk()
                swept: list[str] = []

                def compare(_state: object, node: str, **_more: object) -> Found:
                    swept.append(node)
                    return Found(again=node == "north-3")

                monkeypatch.setattr(tended._comparer, "compare", compare)
                bell = tended._agent("north-3").bell
                rounds = []
                for _ in range(3):
                    tended.sweep(0.5)
                    await asyncio.wrap_future(service.loop.ask(lambda state: state.seq))
                    rounds.append(sorted(swept))
                    swept.clear()
                await turns()
                assert bell.rung
                assert [tended._agent(f"north-{number}").unsettled for number in (1, 2, 3, 4)] == [0, 0, 1, 0]
                return rounds

        names = [f"north-{number}" for number in (1, 2, 3, 4)]
        first, second, third = wait(story())
        assert (first, second, third) == (names[:2], names[2:], names[:2])


class TestStrangers:
    def test_what_an_old_life_left_is_ended(self, tmp_path: Path) -> None:
        """An attempt that this service never made is stopped, then forgotten."""

        async def story(_service: Served, agent: FakeAgent) -> list[str]:
            agent.hold("job-99.1", 3, "running", ())
            for _ in range(3):
                await agent.talk()
            return [type(order).__name__ for order in agent.orders if order.attempt == "job-99.1"]

        orders = told(tmp_path, story)
        assert orders[0] == StopAttempt.__name__
        assert orders[-1] == "Forget"
