"""What the planner keeps of a job's options: what each size of each means in replicas and stages.

Pure data, apart from the planner so that whoever only binds an option need not load what found it.
"""

from dataclasses import dataclass, field

from argosy.contracts.option import Option
from argosy.plan.folding import Folded


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """The options of one job. forms: by option, what the plan of each size looks like, in the order of its ladder.

    sites, node_chips: of each class.
    """

    options: tuple[Option, ...]
    forms: dict[str, tuple[Folded, ...]] = field(default_factory=dict)
    sites: dict[str, str] = field(default_factory=dict)
    node_chips: dict[str, int] = field(default_factory=dict)
    version: int = 1
