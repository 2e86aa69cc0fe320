"""Maintenance windows: until when each node may be used, and emptying nodes whose window begins.

Windows are reservations that no job owns. Works from policy and time alone; must not know how jobs are moved.
"""

from argosy.contracts.policy import Window
from argosy.control.change import WindowsTurned
from argosy.control.nodes import FOREVER, NodeTable
from argosy.control.recover import vacate
from argosy.control.work import Work


def turn_windows(work: Work) -> None:
    """Work out until when each node may be used, empty those whose window is on, and wake at the next edge."""
    state = work.state
    until = _until(state.nodes, state.policy.maintenance, work.now_us)
    changed = [number for number, time_us in enumerate(until) if time_us != state.nodes.until_us[number]]
    if changed:
        work.change(WindowsTurned(nodes=tuple(changed), until_us=tuple(until[number] for number in changed)))
        work.want_pass()
    edges = [edge for window in state.policy.maintenance for edge in (window.from_us, window.to_us)]
    coming = min((edge for edge in edges if edge > work.now_us), default=None)
    if coming is not None:
        work.at(coming, "maintenance")
    vacate(work, {number for number, time_us in enumerate(until) if time_us == 0}, "maintenance")


def _until(nodes: NodeTable, windows: tuple[Window, ...], now_us: int) -> list[int]:
    """Give for each node the start of its next window, 0 while in one, FOREVER without."""
    until = [FOREVER] * len(nodes)
    for window in windows:
        if window.to_us > now_us:
            start_us = 0 if window.from_us <= now_us else window.from_us
            for number in range(len(nodes)):
                if start_us < until[number] and covers(window, nodes, number):
                    until[number] = start_us
    return until


def covers(window: Window, nodes: NodeTable, number: int) -> bool:
    """Say whether a window is about a node."""
    return (
        nodes.pools[nodes.pool[number]].site == window.site
        and window.rack in (None, nodes.rack[number])
        and window.spine in (None, nodes.spine[number])
        and window.node in ("", nodes.name[number])
    )
