"""Words by which a line denies the fault that it names: a count of none, or `no`, `none of` and `not` before it.

What a message denies may be the fault itself (`no space left`), so only words beside what a signature matched count,
and only within one clause. Must not know which fault a line tells.
"""

import re

# A number before "errors" is a count only where no name of a rank or device takes it.
_NONE = re.compile(
    r"(?:^|[,;:(=] ?|\b(?:with|had|has|have|found|saw|reported|of|and|is|are|were|detected|without(?: any)?) )"
    r"(?:0|no|zero) (?:(?!on\b|in\b|of\b)[\w-]+ ){0,3}"
    r"(?:errors|faults|failures|time-?outs|ooms|exceptions|nans|crashes|hangs|evictions|preemptions|kills|xids?)\b"
    r"|\berrors[\"']?\s?[:=]\s?0\b(?![./\w])",
    re.IGNORECASE,
)
_THINGS = (
    r"(?:workers?|process(?:es)?|ranks?|tasks?|jobs?|pods?|containers?|nodes?|hosts?|machines?|instances?|gpus?|npus?"
    r"|devices?|chips?|links?|ports?|disks?|drives?|requests?|samples?|batch(?:es)?|replicas?|actors?|shards?|threads?)"
)
# What stands before a fault, up to it: a clause of its own, so that no sign and no word that begins another follows.
_BEFORE = re.compile(
    rf"(?:(?:^|[,;:()\[\]] ?|\b(?:and|with|had|has|found|saw|reported|were|there (?:is|are|was|were)) )"
    rf"(?:(?:0|zero|no) (?:[\w-]+ ){{0,2}}?{_THINGS}|(?:none|0) of (?:the |all |\d+ )*{_THINGS})\b"
    r"|\b(?:no (?:sign|trace|evidence|indication|instance|case)s? of|without (?:any|a single))"
    r"|\b(?:was|were|is|are|has|have|had|did|does|do) ?(?:not|n't|never)(?: (?:been|be|a|an|any|seen?|hit|had))?)"
    r"(?:(?!\b(?:because|since|when|while|after|but|until|unless|then|due|so|as|which|that)\b)[^,;:!?|]){0,60}$",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\w*(?: \([\w /]{1,40}\))?(?:[ _-][a-z]+){0,3}(?:\s*[:=]+\s*[\"']?|(?:(?<=count)|(?<=counter)|(?<=number)) )"
    r"(?:0|none|nil|no|false|never)\b(?![.:/\w-]| ?[a-z%])",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z]{5,}")
_ANY = re.compile(r"\b(?:0|zero|no|none|nil|false|not|never|without)\b|n't", re.IGNORECASE)


def counts_none(text: str) -> bool:
    """Tell whether a line says that there was none of what it names.

    >>> counts_none("ECC: 0 uncorrectable errors"), counts_none("rank 0 errors out")
    (True, False)
    """
    return _NONE.search(text) is not None


def may_deny(text: str) -> bool:
    """Tell at little cost whether a line may deny anything at all."""
    return _ANY.search(text) is not None


def denied(text: str, begin: int, end: int) -> bool:
    """Tell whether a line denies what stands between two places of it.

    >>> text = "0 Workers (tasks / actors) killed due to memory pressure"
    >>> denied(text, text.index("killed"), len(text))
    True
    """
    if _BEFORE.search(text[max(0, begin - 120) : begin]) or _AFTER.match(text, end):
        return True
    words = _WORD.findall(text[begin:end])
    again = rf"(?:^|[,;:(] ?|\band )(?:no|0|zero) {words[-1][:7]}\w*" if words else ""
    return bool(again) and re.search(again, text[end:], re.IGNORECASE) is not None
