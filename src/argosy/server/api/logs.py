"""Routes of what ranks wrote, and of the code that users hand in."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import BUNDLE_BYTES_MAX
from argosy.server.api.finding import own_job
from argosy.server.api.office import Here, Who
from argosy.server.api.problems import RESPONSES
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

    Where an attempt failed, the lines of the rank that failed first come first.
    """
    job = await here.ask(lambda state: own_job(state, name, who).id)
    places = await here.ranklogs.places(job, attempt, rank)

    async def over() -> bool:
        return not places or await here.ranklogs.is_over(job, places[0].attempt)

    async def body() -> AsyncIterator[bytes]:
        yield _written(await last_lines(places, tail, here.ranklogs.read_part))
        if following:
            async for lines in new_lines(places, over, here.ranklogs.read_part):
                yield _written(lines)

    return StreamingResponse(body(), media_type=NDJSON)


def _written(lines: list[LogLine]) -> bytes:
    # An empty line tells a reader that has nothing to read that the connection lives.
    return "".join(f"{line.model_dump_json()}\n" for line in lines).encode() or b"\n"


@ROUTER.put("/bundles", status_code=HTTPStatus.CREATED, operation_id="put_bundle")
async def put_bundle(here: Here, _who: Who, request: Request) -> BundleView:
    """Hand in code, as a tar.gz; gives its id, the SHA-256."""
    folder = here.intake.bundles
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(prefix=".part-", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                name, size = await _receive(request, file)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            await asyncio.to_thread(_put, Path(partial), folder / name)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InfrastructureError(f"{folder}: code can't be kept: {error.strerror or error}") from error
    return BundleView(id=name, size_bytes=size)


def _put(partial: Path, path: Path) -> None:
    """Rename a file whose content is on disk, and have its new name there too."""
    partial.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def _receive(request: Request, file: BinaryIO) -> tuple[str, int]:
    """Write a body as it comes; gives its SHA-256 and size."""
    seen, size = hashlib.sha256(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BUNDLE_BYTES_MAX:
            text = f"the archive has more than {BUNDLE_BYTES_MAX:,} bytes"
            raise BadInputError(f"{text}; put large files where nodes see them")
        seen.update(chunk)
        file.write(chunk)
    return seen.hexdigest(), size
