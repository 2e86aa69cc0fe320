"""What models of the API refuse, told as a mistake of whoever typed it; must not know the API's client."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from argosy.contracts.errors import BadInputError


@contextmanager
def checked() -> Iterator[None]:
    """Tell what a model of the API refuses as a mistake of whoever typed it. Raises BadInputError."""
    try:
        yield
    except ValidationError as error:
        rows = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise BadInputError("; ".join(rows)) from error
