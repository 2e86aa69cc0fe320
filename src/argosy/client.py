"""The Python client of the service, in two forms with the same methods: `Client` and `AsyncClient`.

    with Client.here() as client:
        job = client.submit(Submission(document=open("job.yaml").read()))

Both speak the API's own models (`argosy.server.models`). What can be asked twice without harm is asked again while the
server is away, for `patience_s`. It must not know how anything is shown.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError
from argosy.server import models as m
from argosy.server.place import Address, find_address

T = TypeVar("T")
TIMEOUT_S = 30.0
PATIENCE_S = 10.0
PAUSE_S = 0.25
PAGE = 1_000
"""How many nodes are asked for at once."""
PIECE_BYTES = 1 << 20
"""How much of an archive is held in memory while it is handed in."""
PLAN_S = 150.0
"""How long a dry run may take, which waits for the planner."""
STREAM_S = 60.0
"""A stream that is silent so long has ended; the server says something every 10 s."""
AWAY = (httpx.TransportError,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. answer: what comes back. again: it may be sent twice without harm."""

    method: str
    path: str
    answer: TypeAdapter[T]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    body: m.Model | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    again: bool = True
    timeout_s: float = TIMEOUT_S


def submit_call(submission: m.Submission, key: str) -> Call[m.JobView]:
    """Hand a job in."""
    key = key or uuid.uuid4().hex
    headers = {"Idempotency-Key": key}
    return Call(method="POST", path="/v1/jobs", answer=TypeAdapter(m.JobView), body=submission, headers=headers)


def dry_run_call(submission: m.Submission) -> Call[m.DryRun]:
    """Ask what would become of a job."""
    answer = TypeAdapter(m.DryRun)
    return Call(method="POST", path="/v1/jobs/dry-run", answer=answer, body=submission, timeout_s=PLAN_S)


def jobs_call(queue: str, owner: str, states: tuple[str, ...], before: int, limit: int) -> Call[m.JobList]:
    """List jobs."""
    parameters = {"queue": queue, "owner": owner, "state": list(states), "before": before, "limit": limit}
    return Call(method="GET", path="/v1/jobs", answer=TypeAdapter(m.JobList), parameters=parameters)


def nodes_call(start: int) -> Call[list[m.NodeView]]:
    """List some nodes."""
    return get_call("/v1/nodes", list[m.NodeView], start=start, limit=PAGE)


def get_call(path: str, kind: type[T] | Any, **parameters: Any) -> Call[T]:
    """Read something. kind: what comes back."""
    told = {name: value for name, value in parameters.items() if value is not None}
    return Call(method="GET", path=path, answer=TypeAdapter(kind), parameters=told)


def post_call(method: str, path: str, kind: type[T] | Any, body: m.Model | None = None, *, again: bool) -> Call[T]:
    """Change something."""
    return Call(method=method, path=path, answer=TypeAdapter(kind), body=body, again=again)


def job_path(name: str, rest: str = "") -> str:
    """Give the path of a job."""
    return f"/v1/jobs/{quote(name, safe='')}{rest}"


def node_path(name: str, rest: str = "") -> str:
    """Give the path of a node."""
    return f"/v1/nodes/{quote(name, safe='')}{rest}"


def fixed(wish: m.IntentWish, now_us: int) -> m.IntentWish:
    """Let a deadline stay where it is, should the wish have to be sent twice. now_us: by the service's clock."""
    return wish.model_copy(update={"deadline_s": None, "deadline_us": wish.by_us(now_us)})


def request_of(call: Call[Any]) -> dict[str, Any]:
    """Give what httpx is told of a call."""
    content = None if call.body is None else call.body.model_dump_json().encode()
    headers = dict(call.headers) | ({} if content is None else {"Content-Type": "application/json"})
    return {
        "method": call.method,
        "url": call.path,
        "params": {name: value for name, value in call.parameters.items() if value not in ("", [])},
        "content": content,
        "headers": headers,
        "timeout": call.timeout_s,
    }


def read_answer(call: Call[T], status: int, body: bytes) -> T:
    """Read what came back. Raises BadInputError or InfrastructureError with the server's own words."""
    if status >= 400:
        raise problem(status, body)
    try:
        return call.answer.validate_json(body)
    except ValidationError as error:
        raise InfrastructureError(f"{call.path}: not an answer of this version of Argosy: {error}") from error


def problem(status: int, body: bytes) -> ArgosyError:
    """Turn a problem into an error."""
    try:
        text = str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")[:500] or f"the server answered {status}"
    return (InfrastructureError if status >= 500 else BadInputError)(text)


def read_line(line: str) -> m.LogLine:
    """Read a line of a stream of logs. Raises what broke the stream."""
    try:
        return m.LogLine.model_validate_json(line)
    except ValidationError as error:
        try:
            broke = m.Problem.model_validate_json(line)
        except ValidationError:
            raise InfrastructureError(f"not a line of a log of this version of Argosy: {error}") from error
        raise problem(broke.status, line.encode()) from error


def away(url: str, error: Exception) -> InfrastructureError:
    """Say that the server does not answer."""
    return InfrastructureError(f"no answer from {url}: {error or type(error).__name__}; `argosy status` tells more")


def events_of(lines: Iterator[str]) -> Iterator[m.EventView]:
    """Read server-sent events from the lines of a stream."""
    for line in lines:
        if line.startswith("data: "):
            yield m.EventView.model_validate_json(line.removeprefix("data: "))


class Client:
    """The client that waits. address: see `find_address`; patience_s: how long a server may be away.

    told: hears, once a call, that the server is away and asked again.
    """

    def __init__(
        self, address: Address, patience_s: float = PATIENCE_S, told: Callable[[str], None] = lambda _text: None
    ) -> None:
        self.address, self._patience_s, self._told = address, patience_s, told
        headers = {"Authorization": f"Bearer {address.token}"}
        self._http = httpx.Client(base_url=address.url, headers=headers, timeout=TIMEOUT_S)

    @classmethod
    def here(cls, url: str = "", token: str = "", folder: Path | None = None) -> "Client":
        """Make a client of the server that `find_address` finds."""
        return cls(find_address(url, token, folder))

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call and read its answer. Raises BadInputError, InfrastructureError."""
        until_s, told = time.monotonic() + (self._patience_s if call.again else 0.0), False
        while True:
            try:
                answer = self._http.request(**request_of(call))
                if answer.status_code != 503 or time.monotonic() >= until_s:
                    return read_answer(call, answer.status_code, answer.content)
            except AWAY as error:
                if time.monotonic() >= until_s:
                    raise away(self.address.url, error) from error
            if not told:
                self._told(f"{self.address.url} does not answer now; trying again for {self._patience_s:g} s")
                told = True
            time.sleep(PAUSE_S)

    def submit(self, submission: m.Submission, key: str = "") -> m.JobView:
        """Hand a job in; key: of the request, so that it makes one job however often it is sent."""
        return self.send(submit_call(submission, key))

    def dry_run(self, submission: m.Submission) -> m.DryRun:
        """Say what would become of a job."""
        return self.send(dry_run_call(submission))

    def jobs(
        self, queue: str = "", owner: str = "", states: tuple[str, ...] = (), before: int = 0, limit: int = 100
    ) -> m.JobList:
        """List jobs, newest first."""
        return self.send(jobs_call(queue, owner, states, before, limit))

    def job(self, name: str) -> m.JobDetail:
        """Show a job."""
        return self.send(get_call(job_path(name), m.JobDetail))

    def explain(self, name: str) -> m.Explanation:
        """Say why a job waits, and what happened to it."""
        return self.send(get_call(job_path(name, "/explain"), m.Explanation))

    def cancel(self, name: str) -> m.JobView:
        """End a job."""
        return self.send(post_call("POST", job_path(name, "/cancel"), m.JobView, again=True))

    def nodes(self) -> list[m.NodeView]:
        """List nodes."""
        found: list[m.NodeView] = []
        while page := self.send(nodes_call(len(found))):
            found += page
            if len(page) < PAGE:
                break
        return found

    def node(self, name: str) -> m.NodeView:
        """Show a node."""
        return self.send(get_call(node_path(name), m.NodeView))

    def set_intent(self, name: str, wish: m.IntentWish) -> m.NodeView:
        """Open, cordon or drain a node."""
        wish = wish if wish.deadline_s is None else fixed(wish, self.status().now_us)
        return self.send(post_call("POST", node_path(name, "/intent"), m.NodeView, wish, again=True))

    def retire(self, name: str) -> m.NodeView:
        """Strike a node out for good."""
        return self.send(post_call("DELETE", node_path(name), m.NodeView, again=True))

    def queues(self) -> list[m.QueueView]:
        """List queues."""
        return self.send(get_call("/v1/queues", list[m.QueueView]))

    def set_queues(self, policy: m.PolicyText) -> list[m.QueueView]:
        """Set the policy."""
        return self.send(post_call("PUT", "/v1/queues", list[m.QueueView], policy, again=True))

    def report(self, from_us: int = 0, to_us: int | None = None) -> m.HoursReport:
        """Count chip-hours."""
        return self.send(get_call("/v1/report", m.HoursReport, from_us=from_us, to_us=to_us))

    def tokens(self) -> list[m.TokenView]:
        """List tokens."""
        return self.send(get_call("/v1/tokens", list[m.TokenView]))

    def create_token(self, wish: m.TokenWish) -> m.TokenView:
        """Make a token; its secret is told once."""
        return self.send(post_call("POST", "/v1/tokens", m.TokenView, wish, again=False))

    def revoke_token(self, name: str) -> m.TokenView:
        """Take a token back."""
        return self.send(post_call("DELETE", f"/v1/tokens/{quote(name, safe='')}", m.TokenView, again=True))

    def audit(self, before: int = 0, limit: int = 100) -> list[m.AuditRow]:
        """List who did what."""
        return self.send(get_call("/v1/audit", list[m.AuditRow], before=before, limit=limit))

    def status(self) -> m.Status:
        """Say how the service is."""
        return self.send(get_call("/v1/status", m.Status))

    def put_bundle(self, path: Path) -> m.BundleView:
        """Hand in code, a tar.gz; gives its id."""
        with path.open("rb") as file:
            try:
                answer = self._http.put("/v1/bundles", content=file, timeout=None)
            except AWAY as error:
                raise away(self.address.url, error) from error
        return read_answer(get_call("/v1/bundles", m.BundleView), answer.status_code, answer.content)

    def logs(
        self, name: str, *, rank: int | None = None, attempt: str = "", tail: int = 1_000, follow: bool = False
    ) -> Iterator[m.LogLine]:
        """Read the logs of a job's ranks, merged by time; follow: new lines as they come."""
        for line in self._stream(job_path(name, "/logs"), log_parameters(rank, attempt, tail, follow)):
            if line:
                yield read_line(line)

    def events(self, after: str = "") -> Iterator[m.EventView]:
        """Follow what happens, from an event's id on; goes on where it was when the server comes back."""
        away_s = time.monotonic()
        while True:
            try:
                for event in events_of(self._stream("/v1/events", {"after": after} if after else {})):
                    after, away_s = event.id, time.monotonic()
                    yield event
            except InfrastructureError:
                if time.monotonic() - away_s > STREAM_S:
                    raise
            time.sleep(PAUSE_S)

    def _stream(self, path: str, parameters: Mapping[str, Any]) -> Iterator[str]:
        timeout = httpx.Timeout(TIMEOUT_S, read=STREAM_S)
        try:
            with self._http.stream("GET", path, params=parameters, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    raise problem(answer.status_code, answer.read())
                cutter = Cutter()
                for chunk in answer.iter_bytes():
                    yield from cutter.lines(chunk)
                yield from cutter.last()
        except AWAY as error:
            raise away(self.address.url, error) from error


class Cutter:
    """Cuts a stream into lines at line feeds alone, for what a job prints may hold every other kind of line end."""

    def __init__(self) -> None:
        self._rest = b""

    def lines(self, chunk: bytes) -> list[str]:
        """Give the lines that a chunk ends."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def last(self) -> list[str]:
        """Give the line that the stream's end cut short, if any."""
        return [self._rest.decode("utf-8", "replace")] if self._rest else []


async def pieces_of(path: Path) -> AsyncIterator[bytes]:
    """Read a file piece by piece, off the event loop."""
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


def log_parameters(rank: int | None, attempt: str, tail: int, follow: bool) -> dict[str, Any]:
    """Give the parameters of a request for logs."""
    told: dict[str, Any] = {"tail": tail, "follow": follow}
    return told | ({} if rank is None else {"rank": rank}) | ({"attempt": attempt} if attempt else {})


class AsyncClient:
    """The client for event loops; as `Client`."""

    def __init__(self, address: Address, patience_s: float = PATIENCE_S) -> None:
        self.address, self._patience_s = address, patience_s
        headers = {"Authorization": f"Bearer {address.token}"}
        self._http = httpx.AsyncClient(base_url=address.url, headers=headers, timeout=TIMEOUT_S)

    @classmethod
    def here(cls, url: str = "", token: str = "", folder: Path | None = None) -> "AsyncClient":
        """Make a client of the server that `find_address` finds."""
        return cls(find_address(url, token, folder))

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a call and read its answer. Raises BadInputError, InfrastructureError."""
        until_s = time.monotonic() + (self._patience_s if call.again else 0.0)
        while True:
            try:
                answer = await self._http.request(**request_of(call))
                if answer.status_code != 503 or time.monotonic() >= until_s:
                    return read_answer(call, answer.status_code, answer.content)
            except AWAY as error:
                if time.monotonic() >= until_s:
                    raise away(self.address.url, error) from error
            await asyncio.sleep(PAUSE_S)

    async def submit(self, submission: m.Submission, key: str = "") -> m.JobView:
        """Hand a job in; key: of the request, so that it makes one job however often it is sent."""
        return await self.send(submit_call(submission, key))

    async def dry_run(self, submission: m.Submission) -> m.DryRun:
        """Say what would become of a job."""
        return await self.send(dry_run_call(submission))

    async def jobs(
        self, queue: str = "", owner: str = "", states: tuple[str, ...] = (), before: int = 0, limit: int = 100
    ) -> m.JobList:
        """List jobs, newest first."""
        return await self.send(jobs_call(queue, owner, states, before, limit))

    async def job(self, name: str) -> m.JobDetail:
        """Show a job."""
        return await self.send(get_call(job_path(name), m.JobDetail))

    async def explain(self, name: str) -> m.Explanation:
        """Say why a job waits, and what happened to it."""
        return await self.send(get_call(job_path(name, "/explain"), m.Explanation))

    async def cancel(self, name: str) -> m.JobView:
        """End a job."""
        return await self.send(post_call("POST", job_path(name, "/cancel"), m.JobView, again=True))

    async def nodes(self) -> list[m.NodeView]:
        """List nodes."""
        found: list[m.NodeView] = []
        while page := await self.send(nodes_call(len(found))):
            found += page
            if len(page) < PAGE:
                break
        return found

    async def node(self, name: str) -> m.NodeView:
        """Show a node."""
        return await self.send(get_call(node_path(name), m.NodeView))

    async def set_intent(self, name: str, wish: m.IntentWish) -> m.NodeView:
        """Open, cordon or drain a node."""
        wish = wish if wish.deadline_s is None else fixed(wish, (await self.status()).now_us)
        return await self.send(post_call("POST", node_path(name, "/intent"), m.NodeView, wish, again=True))

    async def retire(self, name: str) -> m.NodeView:
        """Strike a node out for good."""
        return await self.send(post_call("DELETE", node_path(name), m.NodeView, again=True))

    async def queues(self) -> list[m.QueueView]:
        """List queues."""
        return await self.send(get_call("/v1/queues", list[m.QueueView]))

    async def set_queues(self, policy: m.PolicyText) -> list[m.QueueView]:
        """Set the policy."""
        return await self.send(post_call("PUT", "/v1/queues", list[m.QueueView], policy, again=True))

    async def report(self, from_us: int = 0, to_us: int | None = None) -> m.HoursReport:
        """Count chip-hours."""
        return await self.send(get_call("/v1/report", m.HoursReport, from_us=from_us, to_us=to_us))

    async def tokens(self) -> list[m.TokenView]:
        """List tokens."""
        return await self.send(get_call("/v1/tokens", list[m.TokenView]))

    async def create_token(self, wish: m.TokenWish) -> m.TokenView:
        """Make a token; its secret is told once."""
        return await self.send(post_call("POST", "/v1/tokens", m.TokenView, wish, again=False))

    async def revoke_token(self, name: str) -> m.TokenView:
        """Take a token back."""
        return await self.send(post_call("DELETE", f"/v1/tokens/{quote(name, safe='')}", m.TokenView, again=True))

    async def audit(self, before: int = 0, limit: int = 100) -> list[m.AuditRow]:
        """List who did what."""
        return await self.send(get_call("/v1/audit", list[m.AuditRow], before=before, limit=limit))

    async def status(self) -> m.Status:
        """Say how the service is."""
        return await self.send(get_call("/v1/status", m.Status))

    async def put_bundle(self, path: Path) -> m.BundleView:
        """Hand in code, a tar.gz; gives its id."""
        try:
            told = {"Content-Length": str(path.stat().st_size)}
            answer = await self._http.put("/v1/bundles", content=pieces_of(path), headers=told, timeout=None)
        except AWAY as error:
            raise away(self.address.url, error) from error
        return read_answer(get_call("/v1/bundles", m.BundleView), answer.status_code, answer.content)

    async def logs(
        self, name: str, *, rank: int | None = None, attempt: str = "", tail: int = 1_000, follow: bool = False
    ) -> AsyncIterator[m.LogLine]:
        """Read the logs of a job's ranks, merged by time; follow: new lines as they come."""
        async for line in self._stream(job_path(name, "/logs"), log_parameters(rank, attempt, tail, follow)):
            if line:
                yield read_line(line)

    async def events(self, after: str = "") -> AsyncIterator[m.EventView]:
        """Follow what happens, from an event's id on; goes on where it was when the server comes back."""
        away_s = time.monotonic()
        while True:
            try:
                async for line in self._stream("/v1/events", {"after": after} if after else {}):
                    for event in events_of(iter((line,))):
                        after, away_s = event.id, time.monotonic()
                        yield event
            except InfrastructureError:
                if time.monotonic() - away_s > STREAM_S:
                    raise
            await asyncio.sleep(PAUSE_S)

    async def _stream(self, path: str, parameters: Mapping[str, Any]) -> AsyncIterator[str]:
        timeout = httpx.Timeout(TIMEOUT_S, read=STREAM_S)
        try:
            async with self._http.stream("GET", path, params=parameters, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    raise problem(answer.status_code, await answer.aread())
                cutter = Cutter()
                async for chunk in answer.aiter_bytes():
                    for line in cutter.lines(chunk):
                        yield line
                for line in cutter.last():
                    yield line
        except AWAY as error:
            raise away(self.address.url, error) from error
