"""Words that make a fault harmless: it was caught, retried, skipped, recovered or expected.

What was lived through is no incident unless nothing else explains an end, so that words of an end on the same line
count for more. Must not know which fault a line tells.
"""

import re

_ERROR = r"[\w.]*(?:error|exception|failure|oom)"
_DONE = (
    r"(?:failed|crashed|died|seen|hit|reported|killed|oomkilled|evicted|preempted|ended|observed|logged|known|exited"
    r"|because|due to|with)"
)
_RUN = r"(?:run|attempt|job|launch|session|incarnation|container|instance)"
_LIVED = (
    r"\b(?:recovered|recovering from|survived|tolerated|mitigated|healed|swallowed|suppressed|absorbed|dismissed)\b",
    r"\b(?:was|been|is|now|issue|fault|alarm|error|problem) (?:resolved|cleared)\b|^\W*resolved\W*[:\]]",
    r"(?<!not )(?<!not be )\b(?:handled|ignored|ignoring|skipped|skipping)\b",
    rf"\b{_ERROR}s? (?:was |were )?caught\b",
    # A process that loads data, or a replica, hands its error on to be raised.
    rf"\bcaught (?:an? |the )?(?:expected |transient )?{_ERROR}\b(?! in (?:dataloader|replica|pin))",
    r"\bretr(?:ying|ied)\b|\bwill (?:be )?retr(?:y|ied)\b|\bentering retry\b|\bbacking off\b",
    r"\bretry (?:in|after) \d|\bretry \d+ ?(?:/|of) ?\d+\b|\b(?:attempt|try) \d+ ?(?:/|of) ?\d+\b",
    r"\bsucceeded (?:on|after|at) (?:the )?(?:\w+ )?(?:attempt|retr|try)",
    r"\b(?:retry|attempt|try) (?:has |had )?(?:succeeded|worked|passed|ok)\b|\b(?:went|carried) on\b",
    r"\bfall(?:ing|s|en)? back (?:to|on)\b|\bwill continue\b|\bcarrying on\b",
    r"\bcontinuing (?:with|without|anyway|training|at)\b",
    rf"\bpreviously {_DONE}\b",
    rf"\b(?:previous|last|prior|earlier) {_RUN}\b.{{0,40}}?\b{_DONE}\b",
    r"\b\d+ (?:hour|day|week|month)s? ago\b|\bdry.run\b|\bdrill\b|\bfault injection\b|\b(?:simulat|inject)(?:ed|ing)\b",
    rf"\((?:this is )?expected\b|\bexpected\)|\b(?:this is|as) expected\b|\bexpected {_ERROR}\b",
    r"\b(?:can|may) be (?:safely )?ignored\b|\bharmless\b|\bno action (?:is )?(?:needed|required)\b",
)
# NCCL calls any failure of CUDA or of the system unhandled.
_ENDED = (
    r"\babort|\bexiting\b|\bwill exit\b|(?<!non-)(?<!non)\bfatal\b|\bg(?:ive|iving|ave) up\b|\bterminating\b",
    r"\bshutting down\b|\bunrecover(?:ed|able)\b|\bunhandled\b(?! (?:cuda|system) error)|\bunexpected\b|\bre-?rais",
    r"(?:\bnot|\bnever|n't|\bcannot|\bfailed to|\bunable to) (?:be )?"
    r"(?:recover|handl|continu|retr|resolv|proceed|survive)",
    r"\b(?:retries|attempts|tries) (?:were |are |all )?(?:exhausted|exceeded|used up|failed)",
    r"\bmax(?:imum)? (?:number of )?(?:retries|attempts)\b|\bno (?:more |further )?(?:retries|attempts)\b",
    r"\b(?:failed|after|all) (?:after )?(?:all )?\d+ (?:retries|attempts|tries)\b",
    r"\b(?:last|final) (?:attempt|retry|try)\b|\bout of (?:retries|attempts|tries)\b",
    r"\bkilled process\b|\bcore dumped\b|\bexited with\b.{0,12}\b[1-9]",
    r"\bstopping (?:the )?(?:job|run|training)\b",
    # The last try of all.
    r"\b(\d+) ?(?:/|of) ?\1\b",
)


# What stands behind lists what might be the reason; that is no evidence for any of it.
_SUPPOSED = (
    r"\b(?:this|it|which|that) (?:can|may|could|might|often|usually|typically|probably|likely) (?:also )?"
    r"(?:happens?|be|occurs?|means?|indicates?|is|due|caused)\b",
    r"\b(?:this|which) (?:usually |often |likely |probably )?(?:indicates|suggests|means) that\b(?=.*\bor\b)",
    r"\b(?:can|could|may|might) (?:be|happen|occur)\b.{0,20}\b(?:if|when|because|caused|due)\b",
    r"\b(?:possibl[ey]|perhaps|maybe|probably|likely|usually|often)\b.{0,20}\b(?:due to|because|caused by)\b",
    r"\b(?:possible|potential|common|likely) (?:reasons?|causes?|root causes?)\b",
    r"\b(?:abort|stop|exit|fail|raise|warn|skip|restart|kill|alert)(?:s|ing|ed)? (?:\w+ )?(?:if|when|unless)\b",
    r"\(e\.g\.|\bfor example\b|\bsuch as\b",
)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_LIVED_RE, _ENDED_RE = _any_of(_LIVED), _any_of(_ENDED)
_SUPPOSED_RE = _any_of(_SUPPOSED)


def asserted(text: str) -> str:
    """Leave out of a line what it only supposes, to its end.

    >>> asserted("heartbeat lost. This can happen when the node was preempted")
    'heartbeat lost. '
    """
    found = _SUPPOSED_RE.search(text)
    return text[: found.start()] if found else text


def lived_through(text: str) -> bool:
    """Tell whether a line says that what it tells was lived through.

    >>> lived_through("caught OutOfMemoryError: retrying with half the batch"), lived_through("caught error, aborting")
    (True, False)
    """
    return _LIVED_RE.search(text) is not None and _ENDED_RE.search(text) is None
