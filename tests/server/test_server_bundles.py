"""Uploaded code: bounded, checked, given to the nodes of its job alone, and kept as long as a job needs it."""

import asyncio
import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from argosy.server import bundles
from support.serving import FakeAgent, Served, fleet_of, served, wait, work_until

pytestmark = pytest.mark.slow
DOCUMENT = "kind: run\nname: up\ncommand: x\nupload: code\n"


def packed(text: str = "print(1)") -> bytes:
    """Pack a file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


async def hand_in(service: Served, data: bytes) -> httpx.Response:
    """Hand code in."""
    return await service.http.put("/v1/bundles", content=data)


async def submit(service: Served, name: str) -> dict[str, Any]:
    """Hand a job in that needs code."""
    answer = await service.http.post("/v1/jobs", json={"document": DOCUMENT, "bundle": name})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def fetch(service: Served, agent: FakeAgent, name: str) -> httpx.Response:
    """Fetch code as an agent does."""
    return await service.http.get(f"/agent/v1/bundles/{name}", headers={"Authorization": f"Bearer {agent.key}"})


def age(folder: Path) -> None:
    """Let all that lies there be old."""
    for path in (folder / "bundles").iterdir():
        os.utime(path, (1, 1))


def lying(folder: Path) -> set[str]:
    """List what lies there."""
    return {path.name for path in (folder / "bundles").iterdir()}


class TestFetching:
    def test_code_goes_from_users_to_the_nodes_of_its_job(self, tmp_path: Path) -> None:
        """Its id is its hash; the agent of a node that runs its job fetches it, and no other does."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 2)
                data = packed()
                made = (await hand_in(service, data)).json()
                assert made == {"id": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
                assert (await fetch(service, agents[0], made["id"])).status_code == 404
                job = await submit(service, made["id"])
                running = await work_until(service, agents, job["id"], "running")
                has, has_not = sorted(agents, key=lambda agent: agent.node not in running["nodes"])
                assert (await fetch(service, has, made["id"])).content == data
                assert (await fetch(service, has_not, made["id"])).status_code == 404
                for name in ("0" * 64, "..%2Ftoken", made["id"][:-1]):
                    assert (await fetch(service, has, name)).status_code == 404
                assert (await service.http.get(f"/agent/v1/bundles/{made['id']}")).status_code == 401

        wait(story())

    def test_a_job_names_what_it_uploads(self, tmp_path: Path) -> None:
        """Without it, or with an id nobody handed in, a job is refused and the way is shown; a dry run needs none."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": DOCUMENT}
                dry = await service.http.post("/v1/jobs/dry-run", json=body)
                assert dry.status_code == 200, dry.text
                first = await service.http.post("/v1/jobs", json=body)
                assert "PUT /v1/bundles" in first.json()["detail"]
                third = await service.http.post(
                    "/v1/jobs", json={"document": "kind: run\ncommand: x\n", "bundle": "0" * 64}
                )
                assert third.json()["detail"].startswith("bundle: got one for a job that uploads nothing")
                second = await service.http.post("/v1/jobs", json=body | {"bundle": "0" * 64})
                assert second.json()["detail"].startswith("bundle: no 000")

        wait(story())


class TestBounds:
    @pytest.mark.parametrize("data", [b"", b"junk", packed()[:40]], ids=["nothing", "no archive", "half of one"])
    def test_what_is_no_archive_is_refused(self, tmp_path: Path, data: bytes) -> None:
        """A body that is no tar.gz is told at once, and nothing of it stays."""

        async def story() -> None:
            async with served(tmp_path) as service:
                refused = await hand_in(service, data)
                assert (refused.status_code, refused.json()["detail"][:22]) == (422, "the body is no tar.gz:")
                assert lying(tmp_path) == set()

        wait(story())

    @pytest.mark.parametrize("told", [True, False])
    def test_one_that_is_too_large_is_refused_by_its_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool
    ) -> None:
        """The limit is named, whether the size is told before or only seen."""
        monkeypatch.setattr("argosy.server.api.logs.BUNDLE_BYTES_MAX", 1_000)

        async def pieces():
            for _ in range(3):
                yield b"x" * 500

        async def story() -> None:
            async with served(tmp_path) as service:
                content: Any = b"x" * 1_500 if told else pieces()
                refused = await service.http.put("/v1/bundles", content=content)
                assert refused.status_code == 422
                assert refused.json()["detail"].startswith("the archive has more than 1,000 bytes")
                assert lying(tmp_path) == set()

        wait(story())

    def test_all_together_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond what the service takes of all jobs the next is refused, with both figures."""
        size = len(packed("x"))
        monkeypatch.setattr(bundles, "ALL_BYTES_MAX", size + 10)

        async def story() -> None:
            async with served(tmp_path) as service:
                assert (await hand_in(service, packed("x"))).status_code == 201
                refused = await hand_in(service, packed("y"))
                text = f"the service holds {size} bytes of uploaded code; at most {size + 10} are taken"
                assert refused.json()["detail"].startswith(text)
                assert lying(tmp_path) == {hashlib.sha256(packed("x")).hexdigest()}

        wait(story())

    def test_those_that_come_at_once_are_bounded_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Uploads under way count with all they brought so far: the piece that is too much is refused, others end."""
        monkeypatch.setattr(bundles, "ALL_BYTES_MAX", 1_000)
        first_has_begun, second_is_over = asyncio.Event(), asyncio.Event()

        async def slowly(data: bytes):
            yield data + b"\0" * (700 - len(data))
            first_has_begun.set()
            await second_is_over.wait()
            yield b"\0" * 200

        async def story() -> None:
            async with served(tmp_path) as service:
                first = asyncio.create_task(service.http.put("/v1/bundles", content=slowly(packed())))
                await first_has_begun.wait()
                refused = await hand_in(service, packed("y" * 5) + b"\0" * 400)
                second_is_over.set()
                assert "at most 1,000 are taken" in refused.json()["detail"]
                made = (await first).json()
                assert made["size_bytes"] == 900
                assert lying(tmp_path) == {made["id"]}
                assert (await hand_in(service, packed("z")[:50])).status_code == 422

        wait(story())

    def test_one_that_goes_meanwhile_disturbs_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is listed may be gone when it is looked at."""
        monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / "gone"]))

        async def story() -> None:
            async with served(tmp_path) as service:
                assert (await hand_in(service, packed())).status_code == 201

        wait(story())


class TestSweeping:
    def test_what_a_live_job_needs_stays(self, tmp_path: Path) -> None:
        """Old code goes with the next that comes, but not while a job that has not ended needs it."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agents = await fleet_of(service, 1)
                needed, not_needed, newer = [packed(text) for text in "abc"]
                name = (await hand_in(service, needed)).json()["id"]
                await hand_in(service, not_needed)
                job = await submit(service, name)
                age(tmp_path)
                last = (await hand_in(service, newer)).json()["id"]
                assert lying(tmp_path) == {name, last}
                await work_until(service, agents, job["id"], "running")
                agents[0].finish(f"{job['id']}.1")
                await work_until(service, agents, job["id"], "ended")
                age(tmp_path)
                await hand_in(service, newer)
                assert lying(tmp_path) == {last}

        wait(story())

    def test_a_job_that_names_old_code_keeps_it(self, tmp_path: Path) -> None:
        """Code counts as new from the moment somebody names it, so it is there when its job is."""

        async def story() -> None:
            async with served(tmp_path) as service:
                name = (await hand_in(service, packed())).json()["id"]
                age(tmp_path)
                dry = await service.http.post("/v1/jobs/dry-run", json={"document": DOCUMENT, "bundle": name})
                assert dry.status_code == 200
                await hand_in(service, packed("other"))
                assert name in lying(tmp_path)

        wait(story())
