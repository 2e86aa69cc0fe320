"""Plans as `argosy plan --json` writes them: whole, the chosen one first, with what all steps take by it.

Lays out what the room `plan` says; computes nothing.
"""

from collections.abc import Sequence
from typing import Any

from argosy.cli.inputs import Inputs
from argosy.cli.outlook import course_of
from argosy.contracts.codec import encode
from argosy.contracts.plan import Plan
from argosy.plan.telling.explanation import Explanation


def plans_json(inputs: Inputs, plans: Sequence[Plan], told: Explanation | None) -> str:
    """Write plans as JSON; told: why the first and not another, if that was asked."""
    content: dict[str, Any] = {"plans": plans, "course": course_of(inputs.job, plans[0])}
    return encode(content | ({"explanation": told} if told else {})).decode()
