"""What to say when a record lacks its text: the same words for JSON Lines and Parquet.

Formats errors only; opens nothing.
"""

import difflib
from collections.abc import Sequence

from argosy.contracts.errors import BadInputError

_SHOWN = 12


def missing_field(where: str, text_field: str, keys: Sequence[str]) -> BadInputError:
    """Say which field is missing, which there are, and which one was probably meant."""
    near = difflib.get_close_matches(text_field, keys, n=1, cutoff=0.5)
    shown = ", ".join(keys[:_SHOWN]) + (", ..." if len(keys) > _SHOWN else "") if keys else "none"
    meant = (
        f"; did you mean data.text_field: {near[0]}?"
        if near
        else "; set data.text_field to the one that holds the text"
    )
    return BadInputError(f'{where}: no field "{text_field}"; fields here: {shown}{meant}')


def wrong_type(where: str, text_field: str, got: str) -> BadInputError:
    """Say that the field is there but holds no text."""
    return BadInputError(
        f'{where}: field "{text_field}" is {got}, not text; set data.text_field to one that holds text'
    )
