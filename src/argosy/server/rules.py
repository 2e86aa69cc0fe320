"""Reading a policy that people hand in, against the fleet that it is for; and what the core made of it."""

from argosy.contracts.errors import BadInputError
from argosy.contracts.policy import Policy
from argosy.contracts.policy_file import check_policy, read_policy
from argosy.control.change import Record, Refused
from argosy.server.ground import Ground
from argosy.server.models import PolicyText


def read_rules(wish: PolicyText, ground: Ground) -> Policy:
    """Read a queues.yaml. Raises BadInputError with the place of every mistake, or chips and sites nobody has."""
    policy = read_policy(wish.document, wish.source)
    kinds, sites = {each.chip.name for each in ground.classes}, {each.site for each in ground.classes}
    problems = check_policy(policy, kinds, sites, ground.nodes.values())
    if problems:
        raise BadInputError("\n".join(f"{wish.source}: {problem}" for problem in problems))
    return policy


def refusal_in(record: Record) -> None:
    """Raise BadInputError where the core refused what an event asked for."""
    for change in record.changes:
        if isinstance(change, Refused):
            raise BadInputError(f"{change.about}: {change.text}")
