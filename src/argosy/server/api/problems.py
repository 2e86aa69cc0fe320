"""Errors as the API tells them: application/problem+json (RFC 9457) with the fields at fault.

Turns exceptions into answers; must not know any route.
"""

import logging
import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, NeverFitsError
from argosy.server.jobs import KeyReusedError
from argosy.server.models import FieldProblem, Problem

LOG = logging.getLogger("argosy.server")
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
PLACE = re.compile(r"([^\s:]+:\d+(?::\d+)?)\s+(.*)")
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": HTTPStatus(status).phrase}
    for status in (400, 401, 403, 404, 409, 413, 422, 503)
}
"""What any route may answer besides what it is for."""


class NotFoundError(ArgosyError):
    """There is no such thing."""


class ForbiddenError(ArgosyError):
    """It is there, but it is another's."""


STATUS: tuple[tuple[type[ArgosyError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (KeyReusedError, HTTPStatus.CONFLICT),
    (BadInputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NeverFitsError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (InfrastructureError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def install(app: FastAPI) -> None:
    """Have an app answer errors so."""
    app.add_exception_handler(ArgosyError, _ours)
    app.add_exception_handler(RequestValidationError, _fields)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(Exception, _bug)


def answer(status: int, detail: str, problems: list[FieldProblem] | None = None) -> JSONResponse:
    """Write a problem."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, problems=problems or [])
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    if status == HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": "Bearer"}
    return JSONResponse(body.model_dump(), status_code=status, headers=headers, media_type=MEDIA_TYPE)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    return problem_of(error)


def problem_of(error: Exception) -> JSONResponse:
    """Write what went wrong as a problem."""
    status = next((found for kind, found in STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    return answer(status, str(error), places_in(str(error)))


async def _fields(request: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    problems = [FieldProblem(place=".".join(map(str, one["loc"])), text=str(one["msg"])) for one in found]
    text = "; ".join(f"{one.place}: {one.text}" for one in problems) or "the request can't be read"
    kind = request.headers.get("content-type", "")
    if "json" not in kind and any(one.place == "body" for one in problems):
        text = f"{text}; content-type is {kind or 'missing'}, write application/json"
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, text, problems)


async def _plain(_request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = str(getattr(error, "detail", "")) or HTTPStatus(status).phrase
    response = answer(status, detail)
    for name, value in (getattr(error, "headers", None) or {}).items():
        response.headers[name] = value
    return response


async def _bug(_request: Request, error: Exception) -> JSONResponse:
    LOG.error("a request failed", exc_info=error)
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"this is a bug in Argosy: {type(error).__name__}; see the log")


def places_in(text: str) -> list[FieldProblem]:
    """Find the places that an error of a file names, one a line."""
    found = [PLACE.match(line) for line in text.splitlines()]
    return [FieldProblem(place=match[1], text=match[2]) for match in found if match]
