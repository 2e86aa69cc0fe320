"""Finds the cheapest replicas at given prices of chips: the pricing step of the bound's linear program.

Dynamic programming over (stages from the last, first layer, carrier), once for each limit on the slowest stage,
compiled. Must not know how replicas are combined.
"""

import numpy as np

from argosy.contracts.compiled import compiled
from argosy.plan.mix.store import Kind
from argosy.plan.mix.tables import Floats, Integers, MixProblem, MixTable

# Limits on the slowest stage that are tried between the quickest possible and the longest useful one.
GRID = 24
# Depths in a row that may be no cheaper before deeper pipelines are given up.
DEPTHS_WORSE = 3

_Arrays = tuple[tuple[Floats, Floats, Floats, Floats], tuple[Floats, Floats], tuple[Floats, Floats]]


@compiled
def _after(
    rest: Floats, forward: Floats, backward: Floats, scale: tuple[float, float], best: Floats, pick: Integers
) -> None:
    """Least cost behind a boundary, messages over it included, by (layer behind it, carrier before it)."""
    layers, count = rest.shape[0] - 1, rest.shape[1]
    for end in range(1, layers):
        for carrier in range(count):
            best[end, carrier] = np.inf
            for after in range(count):
                cost = (
                    rest[end, after]
                    + scale[0] * forward[end, carrier, after]
                    + scale[1] * backward[end, carrier, after]
                )
                if cost < best[end, carrier]:
                    best[end, carrier] = cost
                    pick[end, carrier] = after


@compiled
def _reach(
    before: tuple[Floats, Floats, Floats, Floats],
    least: tuple[Floats, Floats],
    limits: tuple[float, float, float],
    place: tuple[int, int, int],
    after: Floats,
    rate: float,
) -> tuple[float, int]:
    """Least cost of a stage of one carrier from a layer on and of all behind, and where it ends; depth 1 is the last.

    before: seconds, state, stored bytes by (carrier, layer), weights by layer, all before it; limits: seconds, room,
    weights; place: (carrier, first layer, stages from here on).
    """
    seconds, state, stored, weights = before
    carrier, first, depth = place
    layers = seconds.shape[1] - 1
    best, best_end = np.inf, -1
    came_s = least[1][first, carrier] if first else 0.0
    for end in range(layers if depth == 1 else first + 1, layers - depth + 2):
        own_s = seconds[carrier, end] - seconds[carrier, first]
        held = state[carrier, end] - state[carrier, first] + depth * (stored[carrier, end] - stored[carrier, first])
        if own_s > limits[0] or held > limits[1] or weights[end] - weights[first] > limits[2]:
            break
        gone_s = least[0][end, carrier] if end < layers else 0.0
        cost = own_s * rate + (after[end, carrier] if end < layers else 0.0)
        if own_s + came_s + gone_s <= limits[0] and cost < best:
            best, best_end = cost, end
    return best, best_end


@compiled
def _cheapest(
    before: tuple[Floats, Floats, Floats, Floats],
    messages: tuple[Floats, Floats],
    least: tuple[Floats, Floats],
    room: tuple[Floats, Floats],
    factors: tuple[Floats, float],
    costs: Floats,
    grid: tuple[Floats, Floats],
    patience: int,
) -> tuple[Floats, Integers, Integers, Integers]:
    """For each limit on the slowest stage: least rate x fill + chips, the stages' number, ends and carriers.

    room: bytes and weights by carrier; factors: of the first stage's messages by depth, of the last's; costs: of a
    replica of a stage by carrier; grid: rates and limits.
    """
    count, layers = before[0].shape[0], before[0].shape[1] - 1
    deepest, points = len(factors[0]) - 1, len(grid[0])
    cheapest, depths = np.full(points, np.inf), np.zeros(points, np.int64)
    ends, picks = np.zeros((points, deepest), np.int64), np.zeros((points, deepest), np.int64)
    end_of = np.zeros((deepest + 1, layers, count), np.int64)
    pick_of = np.zeros((deepest + 1, layers + 1, count), np.int64)
    first_end, first_pick = np.zeros((deepest + 1, count), np.int64), np.zeros_like(pick_of)
    after, after_first = np.zeros((layers + 1, count)), np.zeros((layers + 1, count))
    for point in range(points):
        rate, limit_s = grid[0][point], grid[1][point]
        rest, top = np.full((layers + 1, count), np.inf), -1
        for depth in range(1, deepest + 1):
            if top >= 0 and depth > depths[point] + patience:
                break
            if depth > 1:
                last = factors[1] if depth == 2 else 1.0
                _after(rest, *messages, (rate, rate * last), after, pick_of[depth])
                _after(rest, *messages, (rate * factors[0][depth], rate * last), after_first, first_pick[depth])
            new = np.full((layers + 1, count), np.inf)
            for carrier in range(count):
                limits = (limit_s, room[0][carrier], room[1][carrier])
                for first in range(layers - depth + 1):
                    cost, end = _reach(before, least, limits, (carrier, first, depth), after, rate)
                    new[first, carrier], end_of[depth, first, carrier] = cost + costs[carrier], end
                cost, end = _reach(before, least, limits, (carrier, 0, depth), after_first, rate)
                first_end[depth, carrier] = end
                if cost + costs[carrier] < cheapest[point]:
                    cheapest[point], depths[point], top = cost + costs[carrier], depth, carrier
            rest = new
        if top >= 0:
            depth = depths[point]
            picks[point, 0], ends[point, 0] = top, first_end[depth, top]
            if depth > 1:
                picks[point, 1] = first_pick[depth, ends[point, 0], top]
            for stage in range(1, depth):
                ends[point, stage] = end_of[depth - stage, ends[point, stage - 1], picks[point, stage]]
                if stage < depth - 1:
                    picks[point, stage + 1] = pick_of[depth - stage, ends[point, stage], picks[point, stage]]
    return cheapest, depths, ends, picks


class Pricer:
    """Prices replicas of one micro-batch size."""

    def __init__(self, problem: MixProblem, table: MixTable) -> None:
        self.problem, self.table = problem, table
        deepest = min(problem.stages_max, table.layers)
        self._before = *map(_before, (table.layer_s, table.state_bytes, table.stored_bytes)), problem.weights_before
        self._room = (table.limit_bytes - table.fixed_bytes).astype(float)
        self._known: dict[tuple[int, ...], _Arrays] = {}
        first = np.array([problem.first_factor(depth) for depth in range(deepest + 1)], dtype=float)
        self._factors = first, float(problem.last_factor)
        fastest_s = table.layer_s.min(axis=0)
        self.shortest_s = max(float(fastest_s.max()), float(fastest_s.sum()) / deepest) * (1 + 1e-9)
        self.longest_s = float(table.layer_s.sum(axis=1).max())

    def cheapest(
        self, prices: Floats, most: Floats, grid: tuple[Floats, Floats], patience: int = DEPTHS_WORSE
    ) -> tuple[Floats, list[Kind]]:
        """Give the least rate x fill + price of chips for each (rate, limit on the slowest stage), and what has it.

        most: bytes of gradients that a stage may hold, by carrier; infinite and no pipeline where nothing fits.
        """
        allowed = np.flatnonzero(most >= 0)
        costs = (prices[self.table.classes] * self.table.degrees)[allowed]
        before, messages, least = self._of(tuple(int(index) for index in allowed))
        room = self._room[allowed], most[allowed]
        found = _cheapest(before, messages, least, room, self._factors, costs, grid, patience)
        kinds = [
            self._kind(allowed[picks[:depth]], ends[:depth])
            for depth, ends, picks in zip(found[1], found[2], found[3], strict=True)
            if depth
        ]
        return found[0], kinds

    def _kind(self, picked: Integers, ends: Integers) -> Kind:
        return self.table.microbatch_size, tuple(picked.tolist()), tuple(ends.tolist())

    def _of(self, carriers: tuple[int, ...]) -> _Arrays:
        """Give the tables of some carriers alone."""
        if carriers not in self._known:
            rows = np.array(carriers, dtype=np.int64)
            pairs = np.ix_(np.arange(self.table.layers + 1), rows, rows)
            messages = self.table.forward_s[pairs], self.table.backward_s[pairs]
            seconds, state, stored, weights = self._before
            before = seconds[rows], state[rows], stored[rows], weights
            least = messages[0].min(axis=2, initial=np.inf), messages[1].min(axis=1, initial=np.inf)
            self._known[carriers] = before, messages, least
        return self._known[carriers]

    def best(self, prices: Floats, seconds: float, most: Floats) -> list[Kind]:
        """Give the replicas worth most above their chips' price in so many seconds, one for each limit of a grid."""
        longest_s = min(seconds, self.longest_s)
        if longest_s <= self.shortest_s or most.max() < 0:
            return []
        limits = np.geomspace(self.shortest_s, longest_s, GRID)
        return list(dict.fromkeys(self.cheapest(prices, most, (self.table.microbatch_size / limits, limits))[1]))


def _before(values: Floats) -> Floats:
    """Sum values by (carrier, layer) over the layers before each, and over all."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
