"""How a generation of an attempt ended, judged from what the agents of its nodes hold: done, user or infrastructure.

Pure; a first judgement from exits, last words and log patterns alone. When one rank dies, what the others say are
symptoms, so the best-explained failure counts, not the first. Evidence from traces and kernels is the room `health`.
"""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from argosy.contracts.blame import ARGOSY, INFRASTRUCTURE, USER, is_peer_symptom
from argosy.contracts.job import HangSpec
from argosy.contracts.talk import ENDED, RUNNING, STOPPED, Held, HeldRank
from argosy.engine.children import describe_code

DONE = "done"
SHELL_SIGNAL = 128
"""A shell leaves with this and the signal's number when a signal ended what it ran."""

# Signals by which a process ends itself: its own code's doing.
_OWN_SIGNALS = frozenset({signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP})
_EXPLAINED, _SILENT_DEATH, _SILENT_CODE, _SYMPTOM = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How it ended. outcome: done, user or infrastructure, as AttemptEnded has it.

    text: for people. evidence: names what was seen, the same for the same thing. node, rank: the culprit; rank -1: the
    node itself. certain: False while what is known may be a mere symptom and other ranks still live: wait a little.
    """

    outcome: str
    text: str
    evidence: str
    node: str = ""
    rank: int = -1
    certain: bool = True


def judge(held: Mapping[str, Held], nodes: int) -> Verdict | None:
    """Judge one generation; None while it goes on well.

    held: by node name, of this generation alone. nodes: how many the attempt has; it is done when all of them say so.
    `judge_silence` looks at what is no failure of any one rank.
    """
    failures = [failure for node, one in held.items() for failure in _failures(node, one)]
    if failures:
        best = min(failures, key=lambda failure: (failure.rank_class, failure.ended_us, failure.node, failure.rank))
        certain = best.rank_class == _EXPLAINED or not any(_lives(one) for one in held.values())
        return Verdict(
            outcome=best.outcome,
            text=best.text,
            evidence=best.evidence,
            node=best.node,
            rank=best.rank,
            certain=certain,
        )
    if len(held) >= nodes and all(one.state == ENDED for one in held.values()):
        one = next(iter(held.values()))
        return Verdict(outcome=DONE, text="all ranks ended well", evidence=f"{one.attempt}:{one.generation} done")
    return None


def judge_silence(held: Mapping[str, Held], nodes: int, hang: HangSpec) -> Verdict | None:
    """Judge whether a command hangs, on all its nodes; None while it doesn't, or its job names no limits."""
    if len(held) < nodes or any(one.state != RUNNING for one in held.values()):
        return None
    quiet_s = min(one.quiet_s for one in held.values())
    unmarked_s = min((one.unmarked_s for one in held.values() if one.unmarked_s is not None), default=0.0)
    text = ""
    if hang.no_output_for_s is not None and quiet_s >= hang.no_output_for_s:
        text = f"no rank wrote anything for {quiet_s:.0f} s; hang.no_output_for allows {hang.no_output_for_s:g} s"
    elif hang.no_step_for_s is not None and unmarked_s >= hang.no_step_for_s:
        text = f"no line matched hang.step_pattern for {unmarked_s:.0f} s; {hang.no_step_for_s:g} s are allowed"
    if not text:
        return None
    one = next(iter(held.values()))
    return Verdict(outcome=INFRASTRUCTURE, text=text, evidence=f"{one.attempt}:{one.generation} hangs")


def outcome_of(code: int, blame: str) -> str:
    """Say whose failure an exit is: by the rank's own word where it has one, else by how it ended."""
    if blame:
        return USER if blame == USER else INFRASTRUCTURE
    number = _signal_of(code)
    return INFRASTRUCTURE if number and number not in _OWN_SIGNALS else USER


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    rank_class: int
    outcome: str
    text: str
    evidence: str
    node: str
    rank: int
    ended_us: int


def _failures(node: str, held: Held) -> Iterator[_Failure]:
    name = f"{held.attempt}:{held.generation} {node}"
    if held.blame:
        yield _Failure(
            rank_class=_EXPLAINED,
            outcome=outcome_of(1, held.blame),
            text=f"{node}: {held.text}",
            evidence=f"{name} {held.blame}",
            node=node,
            rank=-1,
            ended_us=0,
        )
    for rank in held.ranks:
        if rank.code:
            yield _Failure(
                rank_class=_class(rank),
                outcome=outcome_of(rank.code, rank.blame),
                text=_words(node, rank),
                evidence=f"{name} rank {rank.rank} code {rank.code}",
                node=node,
                rank=rank.rank,
                ended_us=rank.ended_us,
            )


def _class(rank: HeldRank) -> int:
    """Order of preference: an explanation, a death, a code without a word, a mere symptom."""
    if rank.text and is_peer_symptom(rank.text):
        return _SYMPTOM
    if rank.blame and rank.blame != ARGOSY:
        return _EXPLAINED
    dead = rank.code is not None and _signal_of(rank.code)
    return _SILENT_DEATH if dead or rank.blame == ARGOSY else _SILENT_CODE


def _signal_of(code: int) -> int:
    """Give the signal that ended a process, also as a shell passes it on; 0 where it left by itself, such as by 255."""
    number = -code if code < 0 else code - SHELL_SIGNAL
    return number if 0 < number < signal.NSIG else 0


def _words(node: str, rank: HeldRank) -> str:
    who = f"rank {rank.rank} on {node}"
    if rank.text:
        return f"{who}: {rank.text}"
    advice = "; the kernel kills when memory is short: see `dmesg`" if rank.code == -signal.SIGKILL else ""
    return f"{who} {describe_code(rank.code)} without a word{advice}"


def _lives(held: Held) -> bool:
    """Tell whether something of it may still run or begin."""
    return held.state not in (ENDED, STOPPED)
