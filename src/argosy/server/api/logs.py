"""Routes of what ranks wrote, and of the code that users hand in."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.contracts.talk import BUNDLE_BYTES_MAX
from argosy.server.api.finding import own_job
from argosy.server.api.office import Here, Who
from argosy.server.api.problems import RESPONSES, problem_of
from argosy.server.bundles import Incoming
from argosy.server.logs import last_lines, new_lines
from argosy.server.models import BundleView, LogLine

ROUTER = APIRouter(prefix="/v1", tags=["logs"], responses=RESPONSES)
TAIL_MAX = 100_000
NDJSON = "application/x-ndjson"


@ROUTER.get("/jobs/{name}/logs", operation_id="read_logs", response_class=StreamingResponse)
async def read_logs(
    here: Here,
    who: Who,
    name: str,
    rank: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    attempt: Annotated[str, Query(max_length=100)] = "",
    tail: Annotated[int, Query(ge=1, le=TAIL_MAX)] = 1_000,
    following: Annotated[bool, Query(alias="follow")] = False,
) -> StreamingResponse:
    """Give the last lines of each rank, merged by time, as one LogLine a line of JSON; then new ones as they come.

    Followed, a job that waits is waited for. What breaks a stream that has begun is its last line, a Problem.
    Where an attempt failed, the lines of the rank that failed first come first.
    """
    job = await here.ask(lambda state: own_job(state, name, who).id)
    places = await here.ranklogs.places(job, attempt, rank)

    async def over() -> bool:
        return not places or await here.ranklogs.is_over(job, places[0].attempt)

    async def told() -> AsyncIterator[bytes]:
        nonlocal places
        if following and not places:
            async for found in here.ranklogs.until_placed(job, attempt, rank):
                places = found
                yield _written([])
        live = not await over()
        yield _written(await last_lines(places, tail, here.ranklogs.read_part, live=live, more=following))
        if following:
            async for lines in new_lines(places, over, here.ranklogs.read_part):
                yield _written(lines)

    async def body() -> AsyncIterator[bytes]:
        try:
            async for part in told():
                yield part
        except ArgosyError as error:
            # The status is said already; the last line is a problem instead of a LogLine.
            yield bytes(problem_of(error).body) + b"\n"

    return StreamingResponse(body(), media_type=NDJSON)


def _written(lines: list[LogLine]) -> bytes:
    # An empty line tells a reader that has nothing to read that the connection lives.
    return "".join(f"{line.model_dump_json()}\n" for line in lines).encode() or b"\n"


@ROUTER.put("/bundles", status_code=HTTPStatus.CREATED, operation_id="put_bundle")
async def put_bundle(here: Here, _who: Who, request: Request) -> BundleView:
    """Hand in code, as a tar.gz; gives its id, the SHA-256."""
    bundles = here.intake.bundles
    await asyncio.to_thread(bundles.sweep)
    with bundles.incoming() as coming:
        name = await _receive(request, coming)
        await asyncio.to_thread(bundles.keep, coming, name)
    return BundleView(id=name, size_bytes=coming.size_bytes)


async def _receive(request: Request, coming: Incoming) -> str:
    """Write a body as it comes; gives its SHA-256."""
    told = request.headers.get("content-length", "0")
    if told.isdecimal() and int(told) > BUNDLE_BYTES_MAX:
        raise _too_large()
    seen = hashlib.sha256()
    async for chunk in request.stream():
        if coming.size_bytes + len(chunk) > BUNDLE_BYTES_MAX:
            raise _too_large()
        seen.update(chunk)
        coming.write(chunk)
    return seen.hexdigest()


def _too_large() -> BadInputError:
    text = f"the archive has more than {BUNDLE_BYTES_MAX:,} bytes, the most that is taken"
    return BadInputError(f"{text}; put large files where nodes see them")
