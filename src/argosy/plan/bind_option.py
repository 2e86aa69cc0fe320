"""From an option that was chosen and the nodes that were given for it to the plan that runs: ranks on chips.

Refuses nodes that are not what the size asks for. Must not know how nodes were chosen.
"""

import difflib
from collections import Counter
from collections.abc import Sequence

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option, Size
from argosy.contracts.plan import Plan
from argosy.plan.bind import bind
from argosy.plan.folding import unfold
from argosy.plan.offering import Offering


def bind_option(offering: Offering, option: str, size: int, nodes: Sequence[Node]) -> Plan:
    """Make the plan of one size of an option on these nodes; neighbours in a pipeline are near each other.

    size: the rung's number in the option's ladder. Raises BadInputError for nodes that are not what it asks for.
    """
    chosen = find_option(offering, option)
    if not 0 <= size < len(chosen.ladder):
        raise BadInputError(f"option {option!r} has sizes 0 to {len(chosen.ladder) - 1}, got {size}")
    check_granted(offering, chosen.ladder[size], nodes)
    near = sorted(nodes, key=lambda node: (node.spine or 0, node.rack or 0))
    return bind(unfold(offering.forms[option][size]), near)


def find_option(offering: Offering, name: str) -> Option:
    """Find an option by its name."""
    options = {option.name: option for option in offering.options}
    if name not in options:
        close = difflib.get_close_matches(name, options, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(map(repr, options))}"
        raise BadInputError(f"no option {name!r}; {hint}")
    return options[name]


def check_granted(offering: Offering, size: Size, nodes: Sequence[Node]) -> None:
    """Refuse nodes of other classes or sites, lame ones, and more or fewer than the size asks for."""
    wanted = Counter[str]()
    for part in size.parts:
        wanted[part.chip_class] += part.nodes
    asks = " + ".join(f"{count:,} of {name}" for name, count in wanted.items())
    for node in nodes:
        name = node.chip_class
        if name not in wanted:
            raise BadInputError(f"node {node.name} is of class {name}; this size asks for nodes: {asks}")
        if node.site != offering.sites[name]:
            raise BadInputError(f"node {node.name} is in {node.site}; nodes of {name} are in {offering.sites[name]}")
        if node.chips < offering.node_chips[name]:
            raise BadInputError(
                f"node {node.name} has {node.chips:,} chips; a node of {name} has {offering.node_chips[name]}; "
                "give a whole one or offer the job's options anew"
            )
    given = Counter(node.chip_class for node in nodes)
    for name, count in wanted.items():
        if given[name] != count:
            raise BadInputError(f"{given[name]:,} nodes of {name} are given; this size asks for nodes: {asks}")
