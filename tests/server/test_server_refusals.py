"""What the API refuses, and how: tokens, others' jobs, bad input, oversized and slow bodies, a full disk."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from argosy.server.api.limits import Limits
from argosy.server.feed import place_of
from support.serving import FakeAgent, fleet_of, served, wait

pytestmark = pytest.mark.slow
BAD = {"Authorization": "Bearer argosy-user-nothing"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("headers", "text"),
        [
            ({"Authorization": ""}, "no token was sent"),
            (BAD, "this token is unknown or was taken back"),
        ],
    )
    def test_nobody_comes_in_without_a_token(self, tmp_path: Path, headers: dict[str, str], text: str) -> None:
        """Every route asks for one, and says how to send it."""

        async def story() -> None:
            async with served(tmp_path) as service:
                answer = await service.http.get("/v1/jobs", headers=headers)
                assert answer.status_code == 401
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["detail"] == f"{text}; send Authorization: Bearer TOKEN, or set ARGOSY_TOKEN"

        wait(story())

    def test_a_users_token_ends_own_jobs_alone(self, tmp_path: Path) -> None:
        """Another's job can't be cancelled, nor its logs read; what administrators do is refused."""

        async def story() -> None:
            async with served(tmp_path) as service:
                job = await service.submit()
                made = (await service.http.post("/v1/tokens", json={"owner": "mary"})).json()
                async with service.as_user(made["secret"]) as mary:
                    shown = await mary.get(f"/v1/jobs/{job['id']}")
                    assert (shown.status_code, shown.json()["document"]) == (200, "")
                    refused = await mary.post(f"/v1/jobs/{job['id']}/cancel")
                    assert refused.status_code == 403
                    assert refused.json()["detail"] == f"{job['id']} is root's job, not mary's"
                    assert (await mary.get(f"/v1/jobs/{job['id']}/logs")).status_code == 403
                    assert (await mary.post("/v1/tokens", json={"owner": "eve"})).status_code == 403
                    await service.http.delete(f"/v1/tokens/{made['id']}")
                    assert (await mary.get("/v1/jobs")).status_code == 401

        wait(story())

    def test_a_join_token_opens_nothing_else(self, tmp_path: Path) -> None:
        """It lets machines in; the API refuses it, and a user's token lets no machine in."""

        async def story() -> None:
            async with served(tmp_path) as service:
                async with service.as_user(service.join_token) as guest:
                    answer = await guest.get("/v1/jobs")
                    assert answer.json()["detail"].startswith("a join token lets machines in")
                made = (await service.http.post("/v1/tokens", json={"owner": "mary"})).json()
                refused = await FakeAgent(service, "host").join(token=made["secret"])
                assert refused.status_code == 401

        wait(story())

    def test_a_bad_job_names_the_place(self, tmp_path: Path) -> None:
        """An unknown key is told with file, line, column and the nearest name."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": "kind: run\ncommand: x\nnode: 2\n", "source": "my.yaml"}
                answer = await service.http.post("/v1/jobs", json=body)
                assert answer.status_code == 422
                assert answer.json()["problems"] == [
                    {"place": "my.yaml:3:1", "text": "node: unknown key; did you mean nodes?"}
                ]

        wait(story())

    def test_an_unknown_queue_makes_no_job(self, tmp_path: Path) -> None:
        """The core refuses it, and nothing is kept."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": "kind: run\ncommand: x\nqueue: defualt\n"}
                answer = await service.http.post("/v1/jobs", json=body)
                assert answer.json()["detail"] == "no queue defualt; did you mean default?"
                assert (await service.http.get("/v1/jobs")).json()["jobs"] == []

        wait(story())

    def test_unknown_fields_and_things_are_refused(self, tmp_path: Path) -> None:
        """A field that is none is 422 with its place; a job, node or token that is not there is 404."""

        async def story() -> None:
            async with served(tmp_path) as service:
                answer = await service.http.post("/v1/tokens", json={"owner": "m", "rolle": "user"})
                assert answer.json()["problems"][0]["place"] == "body.rolle"
                for path in ("/v1/jobs/nothing", "/v1/nodes/nothing", "/v1/nothing"):
                    found = await service.http.get(path)
                    assert (found.status_code, found.headers["content-type"]) == (404, "application/problem+json")
                assert (await service.http.delete("/v1/tokens/nothing")).status_code == 404

        wait(story())

    def test_an_oversized_body_is_refused(self, tmp_path: Path) -> None:
        """Both one that says its size and one that does not."""

        async def story() -> None:
            async with served(tmp_path) as service:
                told = await service.http.post("/v1/jobs", content=b"x" * (5 << 20))
                assert (told.status_code, told.json()["title"]) == (413, "Content Too Large")

                async def pieces():
                    for _ in range(6):
                        yield b"x" * (1 << 20)

                untold = await service.http.post("/v1/jobs", content=pieces())
                assert untold.status_code == 413
                agent = (await fleet_of(service, 1))[0]
                assert (await agent.post("/agent/v1/talk", b"x" * (9 << 20))).status_code == 413
                assert (await agent.post("/agent/v1/talk", b"nonsense")).status_code == 422

        wait(story())

    def test_a_full_disk_is_told_and_loses_nothing(self, tmp_path: Path) -> None:
        """Nothing is acknowledged while the store can't be written; afterwards all is as it was, and it goes on."""

        async def story() -> None:
            async with served(tmp_path) as service:
                before = await service.submit()
                writer = service.whole.service.store._writer
                (pages,) = writer.execute("PRAGMA page_count").fetchone()
                writer.execute(f"PRAGMA max_page_count = {pages}")
                body = {"document": "kind: run\ncommand: x\n# " + "y" * 100_000}
                refused = await service.http.post("/v1/jobs", json=body)
                assert refused.status_code == 503
                assert refused.headers["retry-after"] == "2"
                assert refused.json()["detail"].endswith("free space on its disk")
                assert (await service.http.get("/v1/status")).json()["trouble"] == refused.json()["detail"]
                assert [job["id"] for job in (await service.http.get("/v1/jobs")).json()["jobs"]] == [before["id"]]
                writer.execute("PRAGMA max_page_count = 1000000")
                assert (await service.http.post("/v1/jobs", json=body)).status_code == 201

        wait(story())


class TestSlowClients:
    def test_a_body_that_does_not_come_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After the wait for its next piece the request is answered with 408."""
        monkeypatch.setattr("argosy.server.api.limits.CHUNK_S", 0.01)
        sent: list[Any] = []

        async def app(_scope: Any, receive: Any, send: Any) -> None:
            if (await receive())["type"] != "http.disconnect":
                await send({"type": "http.response.start", "status": 200, "headers": []})

        async def never() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        wait(Limits(app, ())({"type": "http", "path": "/v1/jobs", "headers": []}, never, send))
        assert sent[0]["status"] == 408


@pytest.mark.slow
class TestSmallThings:
    @pytest.mark.parametrize(
        ("lines", "words"),
        [
            ("time_limit: 99999999999h", "time_limit: got 3.6e+14 s; at most 3,153,600,000 s are allowed"),
            ("stop_grace: 25h", "stop_grace: got 90000 s; at most 86,400 s are allowed"),
            ("chips: {allow: [chip-b]}", "chips.allow: no chip chip-b in the server's catalogue; did you mean chip-a?"),
            ("chips: {allow: [zz]}", "chips.allow: no chip zz in the server's catalogue; `argosy chips` lists them"),
        ],
    )
    def test_what_can_not_be_is_refused_at_once(self, tmp_path: Path, lines: str, words: str) -> None:
        """Times beyond all reason, and chips that nobody knows, with the key at fault."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": f"kind: run\nname: z\ncommand: x\n{lines}\n"}
                refused = await service.http.post("/v1/jobs", json=body)
                assert (refused.status_code, refused.json()["detail"]) == (422, words)

        wait(story())

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("/v1/jobs?state=zz", "query.state.0: Input should be 'waiting', 'reserved'"),
            ("/v1/report?from_us=10&to_us=5", "from_us: 10 is after 5, where the report ends"),
        ],
    )
    def test_questions_without_an_answer_are_refused(self, tmp_path: Path, path: str, words: str) -> None:
        """A state that no job has, and a time that ends before it begins."""

        async def story() -> None:
            async with served(tmp_path) as service:
                refused = await service.http.get(path)
                assert refused.status_code == 422
                assert refused.json()["detail"].startswith(words)

        wait(story())

    def test_two_deadlines_are_one_too_many(self, tmp_path: Path) -> None:
        """A wish names a deadline from now, or a moment, not both."""

        async def story() -> None:
            async with served(tmp_path) as service:
                wish = {"intent": "draining", "deadline_s": 1, "deadline_us": 1}
                refused = await service.http.post("/v1/nodes/north-1/intent", json=wish)
                assert refused.status_code == 422
                assert "deadline_us stands beside deadline_s; write one of them" in refused.json()["detail"]

        wait(story())

    def test_a_body_without_its_kind_is_told_so(self, tmp_path: Path) -> None:
        """JSON that is not called so is not read; the header is named."""

        async def story() -> None:
            async with served(tmp_path) as service:
                refused = await service.http.post("/v1/jobs", content=b'{"document": "x"}')
                assert "content-type is missing, write application/json" in refused.json()["detail"]

        wait(story())

    def test_an_id_beyond_all_has_nothing_behind_it(self) -> None:
        """A reader who asks for what comes after it does not get everything anew."""
        assert place_of("9" * 30) > place_of(f"{10**18}.7")
