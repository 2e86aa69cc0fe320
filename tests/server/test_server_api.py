"""The API with agents that do at once what they are told: jobs from their submission to their end, nodes, errors."""

import asyncio
import json
from pathlib import Path

import pytest

from argosy.contracts.messages import StepDone
from argosy.contracts.talk import RankSaid, StartRun
from argosy.server.desk import DOWN_AFTER_S
from support.serving import fleet_of, ground, served, wait, work_until

pytestmark = pytest.mark.slow


class TestJobs:
    def test_a_command_runs_on_the_nodes_it_asked_for(self, tmp_path: Path) -> None:
        """A job of two nodes is started on both, node 0 first, and ends as done when all ranks ended well."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 2)
                job = await service.submit(nodes=2)
                running = await work_until(service, agents, job["id"], "running")
                assert running["nodes"] == ["north-1", "north-2"]
                assert running["chips"] == {"chip-a": 4}
                starts = [order for agent in agents for order in agent.orders if isinstance(order, StartRun)]
                assert sorted((one.gang.node_rank, one.gang.meeting is None) for one in starts) == [
                    (0, True),
                    (1, False),
                ]
                for agent in agents:
                    agent.finish(f"{job['id']}.1")
                ended = await work_until(service, agents, job["id"], "ended")
                assert (ended["reason"], ended["text"]) == ("done", "all ranks ended well")
                assert [attempt["chips"] for attempt in ended["attempts"]] == [4]

        wait(story())

    def test_agents_are_told_to_forget_what_has_ended(self, tmp_path: Path) -> None:
        """After a job's end its nodes hold nothing and are free."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                agents[0].finish(f"{job['id']}.1")
                await work_until(service, agents, job["id"], "ended")
                await agents[0].talk()
                assert agents[0].held == {}
                assert [node["attempt"] for node in (await service.http.get("/v1/nodes")).json()] == ["", ""]

        wait(story())

    def test_a_failed_command_ends_its_job_with_the_words_of_the_rank(self, tmp_path: Path) -> None:
        """Exit code 3 of the user's own code is the user's failure, and the rank is named."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                agents[0].finish(f"{job['id']}.1", code=3, blame="user", text="no such file")
                ended = await work_until(service, agents, job["id"], "ended")
                assert ended["reason"] == "failed_user"
                assert ended["text"] == "rank 0 on north-1: no such file"

        wait(story())

    def test_lost_ranks_are_started_again_in_a_new_generation(self, tmp_path: Path) -> None:
        """An agent that no longer holds a running attempt gets it anew."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                agents[0].held.clear()
                await agents[0].talk()
                again = await work_until(service, agents, job["id"], "running")
                assert again["generation"] == 2
                assert again["retries"] == {"infrastructure": 1}

        wait(story())

    def test_cancelling_stops_the_ranks_first(self, tmp_path: Path) -> None:
        """A cancelled job stops, its agent is told, and only then it has ended."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                stopping = (await service.http.post(f"/v1/jobs/{job['id']}/cancel")).json()
                assert stopping["state"] == "stopping"
                ended = await work_until(service, agents, job["id"], "ended")
                assert (ended["reason"], ended["text"]) == ("stopped", "by root")
                again = (await service.http.post(f"/v1/jobs/{job['id']}/cancel")).json()
                assert again["state"] == "ended"

        wait(story())

    def test_the_same_key_makes_one_job(self, tmp_path: Path) -> None:
        """A request sent twice at once with one key makes one job; another job under that key is refused."""

        async def story() -> None:
            async with served(tmp_path) as service:
                key = {"Idempotency-Key": "k1"}
                jobs = await asyncio.gather(*(service.submit(**key) for _ in range(4)))
                assert len({job["id"] for job in jobs}) == 1
                body = {"document": "kind: run\ncommand: other\n"}
                other = await service.http.post("/v1/jobs", json=body, headers=key)
                assert other.status_code == 409
                assert other.json()["detail"].startswith("Idempotency-Key 'k1' came with another job before")

        wait(story())

    def test_what_can_never_fit_ends_at_once_and_says_why(self, tmp_path: Path) -> None:
        """Three nodes of a fleet that has two are refused with both numbers."""

        async def story() -> None:
            async with served(tmp_path) as service:
                job = await service.submit(nodes=3)
                ended = await service.until(job["id"], "ended")
                assert ended["reason"] == "never_fits"
                assert ended["text"] == "needs 3 nodes of one class; the fleet has 2 of north/chip-a"

        wait(story())

    def test_a_waiting_job_says_why(self, tmp_path: Path) -> None:
        """Without machines a job waits, and explain says what it needs and what is free."""

        async def story() -> None:
            async with served(tmp_path) as service:
                job = await service.submit()
                while (why := (await service.http.get("/v1/jobs/hello/explain")).json())["code"] in (
                    "NO_OPTIONS",
                    "NEXT_PASS",
                ):
                    await asyncio.wrap_future(service.loop.ask(lambda state: state.seq))
                assert why["code"] == "NODES_DOWN"
                assert why["needs"][0]["owned"] == 2
                assert why["story"][0]["did"] == ["job.submitted: hello to default, by root"]
                assert why["job"] == job["id"]

        wait(story())

    def test_a_dry_run_keeps_nothing(self, tmp_path: Path) -> None:
        """It says where a job would start, and no job is there afterwards."""

        async def story() -> None:
            async with served(tmp_path) as service:
                await fleet_of(service, 1)
                body = {"document": "kind: run\ncommand: echo\n"}
                found = (await service.http.post("/v1/jobs/dry-run", json=body)).json()
                assert (found["state"], found["nodes"]) == ("preparing", ["north-1"])
                assert found["offers"][0]["nodes"] == {"north/chip-a": 1}
                assert (await service.http.get("/v1/jobs")).json() == {"jobs": [], "next": None}

        wait(story())

    def test_last_words_of_a_job_are_its_owners(self, tmp_path: Path) -> None:
        """Others see that it failed, but not what its code wrote: not in lists, stories or events."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                agents[0].finish(f"{job['id']}.1", 1, "user", "password is hunter2")
                ended = await work_until(service, agents, job["id"], "ended")
                assert "hunter2" in ended["text"]
                assert "hunter2" in (await service.http.get("/v1/jobs/hello/explain")).text
                made = (await service.http.post("/v1/tokens", json={"owner": "mary"})).json()
                async with service.as_user(made["secret"]) as mary:
                    for path in ("", "/hello", "/hello/explain"):
                        answer = await mary.get(f"/v1/jobs{path}")
                        assert (answer.status_code, "hunter2" in answer.text) == (200, False)
                async for event in service.whole.service.feed.follow("0.0", 0.05):
                    if event is None:
                        break
                    assert "hunter2" not in event.text, event

        wait(story())

    def test_dry_run_is_no_field_of_a_job(self, tmp_path: Path) -> None:
        """Who writes it there is told so, and nothing runs."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": "kind: run\ncommand: echo\n", "dry_run": True}
                assert (await service.http.post("/v1/jobs", json=body)).status_code == 422
                assert (await service.http.get("/v1/jobs")).json() == {"jobs": [], "next": None}

        wait(story())

    def test_jobs_are_listed_in_pages(self, tmp_path: Path) -> None:
        """Newest first, and `next` leads on to the older ones."""

        async def story() -> None:
            async with served(tmp_path) as service:
                made = [(await service.submit())["id"] for _ in range(3)]
                first = (await service.http.get("/v1/jobs", params={"limit": 2})).json()
                rest = (await service.http.get("/v1/jobs", params={"limit": 2, "before": first["next"]})).json()
                assert [job["id"] for job in first["jobs"] + rest["jobs"]] == made[::-1]
                assert rest["next"] is None

        wait(story())


class TestLogs:
    def test_logs_come_from_the_agents(self, tmp_path: Path) -> None:
        """The lines of a rank are read from its node when somebody asks."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                asked = asyncio.create_task(service.http.get(f"/v1/jobs/{job['id']}/logs"))
                while not asked.done():
                    await agents[0].talk(wait_s=1.0)
                lines = (await asked).text.splitlines()
                assert len(lines) == 1
                assert '"rank":0' in lines[0]
                assert '"text":"hello"' in lines[0]

        wait(story())

    def test_followed_a_job_that_waits_is_waited_for(self, tmp_path: Path) -> None:
        """Who follows from the moment of handing in sees the first line, and the end ends it."""

        async def story() -> None:
            async with served(tmp_path) as service:
                job = await service.submit()
                path = f"/v1/jobs/{job['id']}/logs"
                asked = asyncio.create_task(service.http.get(path, params={"follow": True}))
                agents = await fleet_of(service, 1)
                await work_until(service, agents, job["id"], "running")
                assert not asked.done()
                agents[0].finish(f"{job['id']}.1")
                while not asked.done():
                    await agents[0].talk(wait_s=0.2)
                assert '"text":"hello"' in (await asked).text

        wait(story())

    def test_a_job_that_never_ran_has_none(self, tmp_path: Path) -> None:
        """No attempt, no lines, and an attempt that is not there is an error."""

        async def story() -> None:
            async with served(tmp_path) as service:
                job = await service.submit()
                assert (await service.http.get(f"/v1/jobs/{job['id']}/logs")).text.strip() == ""
                other = await service.http.get(f"/v1/jobs/{job['id']}/logs", params={"attempt": "job-1.7"})
                assert other.status_code == 422
                assert "its attempts are none yet" in other.json()["detail"]

        wait(story())

    def test_a_rank_that_is_not_there_is_told_in_a_stream_that_began(self, tmp_path: Path) -> None:
        """A job that waited has no such rank once it begins: the last line is the problem."""

        async def story() -> str:
            async with served(tmp_path) as service:
                job = await service.submit()
                params = {"follow": "true", "rank": "7"}
                asked = asyncio.create_task(service.http.get(f"/v1/jobs/{job['id']}/logs", params=params))
                await work_until(service, await fleet_of(service, 1), job["id"], "running")
                return (await asked).text

        last = json.loads(wait(story()).strip().splitlines()[-1])
        assert last["status"] == 422
        assert last["detail"].endswith(".1 has ranks 0 to 0, got 7")


class TestReports:
    def test_what_ranks_report_is_rolled_up_and_kept(self, tmp_path: Path) -> None:
        """Steps and loss are shown while it runs; a report is acknowledged once it is on disk, and counts once."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                for step in (1, 2, 3):
                    done = StepDone(step=step, loss=4.0 - step, norm=1.0, learning_rate=0.1, tokens=10, wall_s=0.5)
                    agents[0].report(RankSaid, attempt=f"{job['id']}.1", generation=1, position=step, message=done)
                answer = await agents[0].talk()
                assert (answer.acknowledged, agents[0].reports) == (3, [])
                shown = await service.job(job["id"])
                assert (shown["progress"]["step"], shown["progress"]["loss"]) == (3, 1.0)
            async with served(tmp_path) as service:
                agents[0].served, agents[0].session, agents[0].number, agents[0].reported = service, "again", 0, 0
                agents[0].report(RankSaid, attempt=f"{job['id']}.1", generation=1, position=3, message=done)
                await agents[0].talk()
                (attempt,) = (await service.job(job["id"]))["attempts"]
                assert (attempt["measured"]["steps"], attempt["measured"]["step_ms"]) == (3, 500.0)

        wait(story())


class TestNodes:
    def test_a_cordoned_node_gets_no_new_job(self, tmp_path: Path) -> None:
        """What is cordoned stays empty, the reason is shown and kept, and it counts again once it is open."""

        async def story() -> None:
            async with served(tmp_path, ground(nodes=1)) as service:
                agents = await fleet_of(service, 1)
                wish = {"intent": "cordoned", "reason": "fan broken"}
                node = (await service.http.post("/v1/nodes/north-1/intent", json=wish)).json()
                assert (node["intent"], node["reason"]) == ("cordoned", "fan broken")
                job = await service.submit()
                await agents[0].talk()
                assert (await service.job(job["id"]))["state"] == "waiting"
                await service.http.post("/v1/nodes/north-1/intent", json={"intent": "open"})
                await work_until(service, agents, job["id"], "running")
                audit = (await service.http.get("/v1/audit")).json()
                assert [row["deed"] for row in audit] == ["open", "cordoned", "joined"]

        wait(story())

    def test_a_host_beyond_the_fleet_becomes_a_node(self, tmp_path: Path) -> None:
        """A third host joins a fleet of two and gets jobs too."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 3)
                assert [agent.node for agent in agents] == ["north-1", "north-2", "host-2"]
                job = await service.submit(nodes=3)
                running = await work_until(service, agents, job["id"], "running")
                assert running["nodes"] == ["north-1", "north-2", "host-2"]

        wait(story())

    def test_a_retired_nodes_key_opens_nothing(self, tmp_path: Path) -> None:
        """Its agent is refused from then on."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agent = (await fleet_of(service, 1))[0]
                gone = await service.http.delete("/v1/nodes/north-1")
                assert gone.json()["observed"] == "retired"
                answer = await agent.post("/agent/v1/talk", b"")
                assert (answer.status_code, answer.text) == (401, "this key is unknown; join again")

        wait(story())


class TestRestart:
    def test_a_new_server_goes_on_with_what_runs(self, tmp_path: Path) -> None:
        """After a restart agents keep their keys, the running job is the same, and it ends as it should."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
            async with served(tmp_path) as service:
                agents[0].served = service
                await agents[0].talk()
                same = await service.job(job["id"])
                assert (same["state"], same["attempt"], same["generation"]) == ("running", f"{job['id']}.1", 1)
                assert (await service.http.get("/v1/status")).json()["term"] == 2
                agents[0].finish(f"{job['id']}.1")
                ended = await work_until(service, agents, job["id"], "ended")
                assert ended["reason"] == "done"

        wait(story())

    def test_an_ending_that_came_while_nobody_listened_is_not_lost(self, tmp_path: Path) -> None:
        """Ranks that ended while the server was away end their job when it is back."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 2)
                job = await service.submit(nodes=2)
                await work_until(service, agents, job["id"], "running")
            for agent in agents:
                agent.finish(f"{job['id']}.1")
            async with served(tmp_path) as service:
                for agent in agents:
                    agent.served = service
                ended = await work_until(service, agents, job["id"], "ended")
                assert ended["reason"] == "done"

        wait(story())

    def test_a_node_that_was_booted_anew_has_lost_its_ranks(self, tmp_path: Path) -> None:
        """Another boot id frees the node at once, and the job starts again."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                job = await service.submit()
                await work_until(service, agents, job["id"], "running")
                agents[0].boot, agents[0].session, agents[0].number = "boot-2", "s2", 0
                agents[0].held.clear()
                service.whole.service.front.desk.excuse(-2 * DOWN_AFTER_S)
                await agents[0].talk()
                while (await service.job(job["id"]))["generation"] < 2:
                    await agents[0].talk(wait_s=1.0)
                await work_until(service, agents, job["id"], "running")

        wait(story())
