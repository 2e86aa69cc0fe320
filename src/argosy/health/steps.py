"""Steps that a job prints while it gets on, as frameworks write them: `step 120`, `iteration 120/ 500`, `"step": 120`.

Must not know what else a log says.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.health.origins import read_head
from argosy.health.signature import Signature
from argosy.health.stamps import Stamp

STEPS_AFTER = 3
"""Who does so many steps more, told one by one or not, was not ended by what stands before them."""

LINE_BYTES, TIMES_ABOVE = 400, 40
PROGRESSED = Signature(
    name="run.progress",
    meaning="the job stepped on",
    role="context",
    layer="framework",
    literals=("step",),
    pattern="step",
)
_STEP = re.compile(r"\b(?:global_?)?(?:step|iter|iteration)s?\b[\"' :=\[#]{0,10}(\d{1,9})\b", re.IGNORECASE)
# A step that is told of in trouble is none that was done.
_TROUBLE = re.compile(r"\b(?:error|fail|exception|out of memory|timed? ?out|abort|traceback|retry)", re.IGNORECASE)


# The last lines of a block that speak of a checkpoint; more are not looked at.
CHECKPOINTS, LOOKED_AT_MAX = (b"heckpoint", b"napshot"), 4
_NOT_SAVED = (
    r"\b(?:fail|error|unable|could not|will be|never|not (?:been )?(?:saved|written)|load|restor|resum|delet|remov"
    r"|discard|skip|next|every|interval)"
)
_SAVED = re.compile(
    rf"^(?!.*{_NOT_SAVED}).*(?:\b(?:saved|wrote|written|saving model)\b|\b(?:finished|done) (?:saving|writing)\b"
    r"|\b(?:saving|writing)\b.*\bdone\b"
    r"|(?:checkpoint|snapshot)\b.{0,60}\b(?:committed|persisted|finali[sz]ed|completed?|is ready|stored)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SAVED_STEP = re.compile(
    r"(?:\b|_)(?:(?:global_?)?step|iter(?:ation)?|checkpoint|snapshot)s?[_\-/ =:#]{0,8}(\d{1,9})\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A line that tells a step. newest: the log's last one. lines_after: how many lines stand behind it."""

    step: str
    newest: str
    text: str
    lines_after: int
    stamp: Stamp | None


def may_step(piece: bytes) -> bool:
    """Tell whether bytes may tell a step at all."""
    lower = piece.lower()
    return b"step" in lower or b"iter" in lower


def step_of(text: str) -> str:
    """Read the number of the step that a line tells; empty where it tells none.

    >>> step_of("global_step=120 loss 2.1"), step_of("stepped over 3")
    ('120', '')
    """
    found = _STEP.search(text)
    return found[1] if found else ""


def checkpoint_of(block: bytes) -> str:
    """Find the step of the last checkpoint that a block says was saved; empty where it tells none.

    >>> checkpoint_of(b"successfully saved checkpoint from iteration     500 to /data")
    '500'
    >>> checkpoint_of(b"checkpoint of step 500 will be written in the background")
    ''
    """
    at = len(block)
    for _ in range(LOOKED_AT_MAX):
        at = max(block.rfind(word, 0, at) for word in CHECKPOINTS)
        if at < 0:
            return ""
        end = block.find(b"\n", at, at + LINE_BYTES)
        begin = block.rfind(b"\n", max(0, at - LINE_BYTES), at) + 1 or max(0, at - LINE_BYTES)
        text = block[begin : end if end >= 0 else at + LINE_BYTES].decode("utf-8", "replace")
        found = _SAVED_STEP.search(text) if _SAVED.search(text) else None
        if found:
            return found[1]
        at = begin
    return ""


def step_before_last(tail: bytes) -> Step | None:
    """Find, in the end of a log, the last line with STEPS_AFTER steps from there on; None for fewer steps."""
    if not may_step(tail):
        return None
    lines = tail.split(b"\n")
    steps: dict[str, None] = {}
    for place in range(len(lines) - 1, -1, -1):
        text = lines[place][:LINE_BYTES].decode("utf-8", "replace")
        step = step_of(text)
        if step and step not in steps and not _TROUBLE.search(text):
            steps[step] = None
            newest = next(iter(steps))
            if len(steps) == STEPS_AFTER or int(newest) - int(step) >= STEPS_AFTER - 1:
                head = read_head(text)
                stamp = head.stamp or _stamp_above(lines[max(0, place - TIMES_ABOVE) : place])
                return Step(step=step, newest=newest, text=head.text, lines_after=len(lines) - 1 - place, stamp=stamp)
    return None


def _stamp_above(lines: Sequence[bytes]) -> Stamp | None:
    """Find the last time in lines."""
    stamps = (read_head(line[:LINE_BYTES].decode("utf-8", "replace")).stamp for line in reversed(lines))
    return next((stamp for stamp in stamps if stamp is not None), None)
