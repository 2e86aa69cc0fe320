"""Which of many clues is the cause: rules joined, hints used only in need, deeper and earlier before later ones.

Must not know how an Incident is written.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.health.book import UNKNOWN, Book, Rule
from argosy.health.clues import Clue
from argosy.health.culprit import first_to_end
from argosy.health.outlived import MACHINE_LAYERS, part, still_worth_telling
from argosy.health.possible import possible
from argosy.health.progress import crowded, from_progress, occupied

# Within so long a deeper layer's word counts before an earlier one's: programs and kernels write with delay.
SAME_TIME_US = 60_000_000
# Two faults further apart than this are two, whatever they are.
EPISODE_US = 1_800_000_000
# No collective waits longer, so nothing that failed so long before is why.
LONG_US = 7_200_000_000
MANY_HOSTS = 4
# Faults that a process meets by itself, whatever other hosts do.
OWN_FAMILIES = frozenset({"gpu", "npu", "host", "user"})
# What a program does wrong or lacks, whatever its GPU does.
PROGRAM_FAMILIES, CHIP_FAMILIES = frozenset({"software", "storage"}), frozenset({"gpu", "npu", "user"})
# A Python program that nobody caught the error of ends with this.
PYTHON_ERROR_CODE = "1"
# Who ends a job does so since something else had failed, wherever anything else is told.
FOLLOWERS = frozenset({"slurm.cancelled", "launcher.terminated", "launcher.interrupted"})
OWN_EXIT = re.compile(r"Exited with exit code (?!0\b|12[89]\b|1[3-9]\d\b)\d+")
INCIDENTS_MAX = 20
# One host lacks what another's version of the collective library has.
LIBRARY_SYMBOL = re.compile(r"undefined symbol: (?:p?nccl|rccl|hccl)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault: its cause, and all clues of its time in order. rivals: other causes of the same weight.

    lone: only those who wait for somebody speak of it, and in one way.
    """

    root: Clue
    clues: tuple[Clue, ...]
    rivals: tuple[Clue, ...] = ()
    lone: bool = False


def find_cases(clues: Sequence[Clue], book: Book) -> tuple[Case, ...]:
    """Find the faults behind clues; none where nothing failed. A fault that nothing tells has the class `unknown`."""
    left, outlived = part(clues)
    found = _all_cases(left, book)
    if outlived and all(_is_guess(case.root) for case in found):
        telling = still_worth_telling(outlived, clues, failed=bool(found))
        found = _all_cases([*left, *telling], book) if telling else found
    return tuple(found[:INCIDENTS_MAX])


def _is_guess(root: Clue) -> bool:
    """Tell whether nothing is known, or only which rank is silent: what was told and lived through weighs more."""
    return root.fault_class == UNKNOWN or (root.signature == "progress.behind" and root.strength == 1)


def _all_cases(clues: Sequence[Clue], book: Book) -> list[Case]:
    cases = [case for episode in _episodes(clues) for case in _cases_of(episode, book)]
    return sorted(cases, key=lambda case: case.root.fault_class == UNKNOWN)


def _episodes(clues: Sequence[Clue]) -> list[list[Clue]]:
    """Part clues where causes, or anything that failed, lie far apart in time; without times all is one."""
    starts: list[int] = []
    last = last_cause = None
    for began, clue in sorted(((clue.began_us, clue) for clue in clues if _is_event(clue)), key=lambda each: each[0]):
        strong = clue.role == "cause" and clue.strength > 1
        apart = strong and last_cause is not None and began - last_cause > EPISODE_US
        if last is None or apart or began - last > LONG_US:
            starts.append(began)
        last = max(last or began, clue.at_us or began)
        last_cause = began if strong else last_cause
    if len(starts) < 2:
        return [list(clues)]
    parts: list[list[Clue]] = [[] for _ in starts]
    of_log: dict[str, int] = {}
    for clue in clues:
        if clue.at_us is not None:
            of_log[clue.line.source] = max(0, bisect_right(starts, clue.began_us) - 1)
        parts[of_log.get(clue.line.source, 0)].append(clue)
    return parts


def _is_event(clue: Clue) -> bool:
    return clue.at_us is not None and (clue.role == "cause" or (clue.role == "symptom" and clue.strength > 1))


def _cases_of(clues: Sequence[Clue], book: Book) -> list[Case]:
    causes = list(crowded(clues)) or _confirmed([*_with_rules(clues, book), *_versions(clues)], clues)
    causes = occupied(causes, clues)
    if not any(cause.strength > 1 for cause in causes):
        causes += from_progress(clues)
    if any(cause.signature == "versions.differ" for cause in causes):
        causes = [cause for cause in causes if not LIBRARY_SYMBOL.search(cause.line.text)]
    followers = [cause for cause in causes if cause.signature in FOLLOWERS]
    causes = [cause for cause in causes if cause.signature not in FOLLOWERS]
    if not causes and followers:
        if _ended_before(followers[0], clues):
            return _unknown([*clues, replace(followers[0], role="symptom", strength=2)])
        causes = followers
    causes = possible(causes or _hints(clues), clues, book)
    if not causes:
        return _unknown(clues)
    root = _root(causes)
    hosts: dict[str, set[str]] = {}
    for cause in causes:
        hosts.setdefault(cause.fault_class, set()).add(cause.host)
    others = [cause for cause in causes if _independent(cause, root, hosts, book)]
    rivals = tuple(_rivals(root, causes))
    cases = [Case(root=root, clues=tuple(clues), rivals=rivals, lone=_is_lone(root, clues))]
    own = _own_error(root, causes, clues)
    if own is not None:
        apart = tuple(clue for clue in clues if clue.order != own.order)
        ended = tuple(clue for clue in clues if clue.layer not in MACHINE_LAYERS)
        cases = [Case(root=root, clues=apart, rivals=(own,)), Case(root=own, clues=ended, rivals=(root,))]
    for other in _one_each(others):
        cases.append(Case(root=other, clues=tuple(clue for clue in clues if _same_place(clue, other))))
    return cases


def _with_rules(clues: Sequence[Clue], book: Book) -> list[Clue]:
    """Give the causes, with what rules make of several clues in the place of those."""
    causes = [clue for clue in clues if clue.role == "cause"]
    for rule in book.rules:
        made_of = _fires(rule, clues)
        if made_of:
            first = min(made_of, key=lambda clue: (clue.role != "cause", clue.order))
            known = book.fault_class(rule.fault_class)
            said = replace(
                first,
                signature=f"rule.{rule.name}",
                role="cause",
                fault_class=rule.fault_class,
                remedy=known.remedy,
                culprit=known.culprit,
                strength=rule.strength,
                meaning=rule.meaning,
            )
            gone = {clue.order for clue in made_of}
            causes = [cause for cause in causes if cause.order not in gone] + [said]
    return causes


def _ended_before(follower: Clue, clues: Sequence[Clue]) -> bool:
    """Tell whether tasks had ended by themselves before somebody ended the job."""
    return any(
        clue.order < follower.order and (OWN_EXIT.search(clue.line.text) or first_to_end([clue]) is not None)
        for clue in clues
    )


def _confirmed(causes: Sequence[Clue], clues: Sequence[Clue]) -> list[Clue]:
    """Believe a Python error more where a launcher says that this rank ended first, as such an error ends a program.

    A log that names no ranks tells the rank with the launcher's words, if it has one such error above them.
    """
    first = first_to_end(clues)
    if first is None or first.field("code") != PYTHON_ERROR_CODE:
        return list(causes)
    errors = [cause for cause in causes if cause.signature == "user.exception"]
    place = first.line.source, first.line.number
    above = [cause for cause in errors if cause.line.source == place[0] and cause.line.number < place[1]]
    alone = len({cause.line.text for cause in errors if cause.rank is None}) == 1
    sure = {cause.order for cause in errors if cause.rank == first.rank}
    sure |= {cause.order for cause in above if cause.rank is None and alone}
    return [replace(cause, strength=2, rank=first.rank) if cause.order in sure else cause for cause in causes]


def _versions(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Find hosts whose collective library is of another version than the first one's."""
    named = [clue for clue in clues if clue.signature == "nccl.version" and (clue.host or clue.rank is not None)]
    other = [clue for clue in named if clue.field("version") != named[0].field("version")]
    lacking = [clue for clue in clues if clue.role == "cause" and LIBRARY_SYMBOL.search(clue.line.text)]
    if other and (lacking or any(clue.role == "symptom" for clue in clues)):
        text = f"Versions {named[0].field('version')} and {other[0].field('version')} meet in one job."
        yield replace(
            other[0],
            signature="versions.differ",
            role="cause",
            fault_class="config.env_mismatch",
            remedy="fix_config",
            culprit="configuration",
            strength=3 if lacking else 2,
            meaning=text,
        )


def _fires(rule: Rule, clues: Sequence[Clue]) -> list[Clue]:
    """Give the clues that make a rule true, or none."""
    if any(_named(clues, name) for name in rule.none):
        return []
    needed = [_named(clues, name) for name in rule.all]
    either = [clue for name in rule.any for clue in _named(clues, name)]
    if not all(needed) or (rule.any and not either):
        return []
    return [clue for group in needed for clue in group] + either


def _named(clues: Sequence[Clue], name: str) -> list[Clue]:
    if name.endswith("*"):
        return [clue for clue in clues if clue.signature.startswith(name[:-1])]
    return [clue for clue in clues if clue.signature == name]


def _hints(clues: Sequence[Clue]) -> list[Clue]:
    """Where something failed and nothing says what, take what contexts and symptoms hint at, weakly."""
    symptoms = [clue for clue in clues if clue.role == "symptom"]
    # Weak symptoms are printed by healthy programs too, other than that somebody stands still.
    if not any(clue.strength > 1 or clue.signature.startswith("hang.") for clue in symptoms):
        return []
    hinting = [clue for clue in clues if clue.role in ("context", "symptom") and clue.fault_class]
    return [replace(clue, role="cause", strength=1) for clue in hinting]


def _unknown(clues: Sequence[Clue]) -> list[Case]:
    """Say that something failed for reasons unknown, if it did: weak symptoms are printed by healthy runs too."""
    symptoms = [clue for clue in clues if clue.role == "symptom" and clue.strength > 1]
    if not symptoms:
        return []
    root = replace(symptoms[0], fault_class=UNKNOWN, culprit="unknown", remedy="retry", strength=1)
    return [Case(root=root, clues=tuple(clues))]


def _root(causes: Sequence[Clue]) -> Clue:
    """Choose the cause: the strongest; of those the deepest among the earliest, then the first printed.

    Of mere hints the first counts, for what comes after it may be its effect.
    """
    best = max(cause.strength for cause in causes)
    strong = [cause for cause in causes if cause.strength == best]
    timed = [cause.at_us for cause in strong if cause.at_us is not None]
    if len(timed) == len(strong):
        limit = min(timed) + SAME_TIME_US
        strong = [cause for cause in strong if cause.at_us is not None and cause.at_us <= limit]
    return min(strong, key=lambda cause: (cause.depth if best > 1 else 0, cause.order))


def _is_lone(root: Clue, clues: Sequence[Clue]) -> bool:
    """Tell whether a cause is but one kind of word of those who wait, who can't tell a link's fault from a peer's."""
    waits = {clue.order for clue in clues if clue.role == "symptom" or (clue.culprit == "link" and clue.peer)}
    told = {clue.signature for clue in clues if clue.role in ("cause", "symptom")}
    return root.order in waits and root.strength == 1 and told == {root.signature}


def _rivals(root: Clue, causes: Sequence[Clue]) -> Iterator[Clue]:
    """Other causes that speak as strongly for another family, and that depth does not explain."""
    for cause in causes:
        if cause.strength >= root.strength and cause.family != root.family and cause.depth <= root.depth:
            yield cause


def _independent(cause: Clue, root: Clue, hosts: Mapping[str, set[str]], book: Book) -> bool:
    """Tell whether a cause is a fault of its own: hardware of another host, seen by its own kernel, driver or port.

    hosts: those that say the same, by class; where many do, the fault is in what they share.
    """
    if cause.strength < 3 or root.strength < 3:
        return False
    # What ran out on another host before is no effect of hardware that broke after.
    first = cause.family in OWN_FAMILIES and cause.at_us is not None and cause.at_us < (root.at_us or cause.at_us)
    if not first and (cause.depth > 1 or cause.remedy != "cordon_replace"):
        return False
    if not cause.host or not root.host or _same_place(cause, root):
        return False
    if cause.fault_class == root.fault_class and book.fault_class(cause.fault_class).spreads:
        return False
    return len(hosts[cause.fault_class]) <= MANY_HOSTS


def _own_error(root: Clue, causes: Sequence[Clue], clues: Sequence[Clue]) -> Clue | None:
    """Find the program's own error that ended the first process, where a machine's fault is but told at the same time.

    Chips that fail make programs fail otherwise: by errors of the chip, or not by themselves.
    """
    if root.layer not in MACHINE_LAYERS or root.family not in CHIP_FAMILIES:
        return None
    failed = [clue for clue in clues if clue.layer not in MACHINE_LAYERS and clue.role in ("cause", "symptom")]
    if any(clue.role == "cause" and clue.family in CHIP_FAMILIES and not _is_program(clue) for clue in failed):
        return None
    first = next((clue for clue in failed if clue.role == "cause" or clue.strength > 1), None)
    own = next((cause for cause in causes if first is not None and cause.order == first.order), None)
    return own if own is not None and _is_program(own) and (own.at_us is None) == (root.at_us is None) else None


def _is_program(clue: Clue) -> bool:
    return clue.layer == "user" or clue.family in PROGRAM_FAMILIES


def _one_each(causes: Sequence[Clue]) -> list[Clue]:
    """Keep the first cause of each host."""
    first: dict[str, Clue] = {}
    for cause in causes:
        first.setdefault(cause.host, cause)
    return list(first.values())


def _same_place(one: Clue, other: Clue) -> bool:
    return one.host == other.host
