"""The order of the pass read plainly: sorted anew for every question, with quotas asked one by one."""

from argosy.control.board import DONE, HELP, LOOK, START
from argosy.control.lanes import CLOSED, CODE, LINED, SEEN, TIER
from argosy.control.nodes import FOREVER
from argosy.control.order import Order
from argosy.control.place import HORIZON_US


class PlainOrder(Order):
    """Gives the same groups in the same order as the compiled one, without its arrays."""

    def __init__(self, state):
        super().__init__(state)
        self.table, self.queued, self.closed = state.lanes.table, set(), {}
        self.tier, self.ran = {}, set(state.attempts)
        for lane in state.lanes.row.values():
            self.put(lane)

    def put(self, lane):
        """Put a group in line at the tier it is entitled at."""
        self.tier[lane] = max(self.tier.get(lane, 0), min((d for _, d, _ in self.rated(lane)), default=0))
        self.queued.add(lane)

    def again(self, lane):
        """Put a group back if it has more jobs."""
        if self.state.lanes.row.get(self.state.lanes.keys[lane]) == lane:
            self.queued.add(lane)

    def head(self, lane):
        """Give the first job of a group as (priority, number, id)."""
        return self.state.waiting[self.state.lanes.keys[lane]][0]

    def place(self, lane):
        """Give where a group stands in its queue."""
        queue = self.state.lanes.keys[lane][0]
        tier = 0 if self.state.policy.queues[queue].order == "strict" else self.tier[lane]
        return tier, *self.head(lane)[:2]

    def key(self, lane):
        """Give where a queue's first group stands among all."""
        queue, (priority, number, _) = self.state.lanes.keys[lane][0], self.head(lane)
        shares = tuple(self._share(place) for place in reversed(self.state.quota.rows[queue].path))
        return self.tier[lane], priority, shares, number

    def rated(self, lane):
        """Rate the rungs of a group: index, depth, whether quota and order allow it."""
        queue, number = self.state.lanes.keys[lane][:2]
        if number < 0:
            return []
        quota, shape, found = self.state.quota, self.state.shapes[number], []
        for index, (need, parts) in enumerate(zip(shape.needs, shape.parts, strict=True)):
            depth = quota.depth(queue, need)
            open_to = not any(pool in self.closed.get(queue, []) for pool, _, _ in parts)
            found.append((index, depth, open_to and quota.excess(queue, need, depth) is None))
        return found

    def has_room(self, lane, index):
        """Say whether a search is worth it: the fullest domain has enough, or withheld nodes might help."""
        _, number, limit, own = self.state.lanes.keys[lane]
        holds = own in self.state.reservations
        end_us = FOREVER if limit >= FOREVER else self.state.now_us + limit
        nodes = self.state.nodes
        for pool, level, count in self.state.shapes[number].parts[index]:
            if level == 0 and count > 1 and not holds:
                return False
            if holds or count <= nodes.trees[pool].largest(level).free:
                continue
            extra = nodes.withheld[pool]
            if count > nodes.trees[pool].largest(level).free + len(extra):
                return False
            if not any(self.may_borrow(lane, node, end_us) for node in extra):
                return False
        return True

    def may_borrow(self, lane, node, end_us):
        """Say whether a job might use a free node that is kept from others."""
        state = self.state
        if not state.nodes.lock[node]:
            soon_us = min(end_us, state.now_us + HORIZON_US) if end_us == FOREVER else end_us
            return soon_us <= state.nodes.until_us[node]
        held = state.reservations[state.nodes.lock[node]]
        other = state.jobs[held.job]
        levels = len(state.quota.rows[state.queue_of(other)].path)
        rank = min(depth for _, depth, _ in self.rated(lane)), self.head(lane)[0]
        outranks = not held.pinned and rank < (levels, -other.claim.priority)
        return outranks or end_us <= state.nodes.lock_until[node]

    def next(self):
        """Find the next group in line."""
        if self.state.lanes.table is not self.table:
            self.table = self.state.lanes.table
        for key in dict.fromkeys(self.state.arrived):
            lane = self.state.lanes.row.get(key)
            if lane is not None and lane not in self.queued and not self.table[lane, CODE]:
                self.put(lane)
        self.state.arrived.clear()
        while True:
            alive = {lane for lane in self.queued if self.state.lanes.row.get(self.state.lanes.keys[lane]) == lane}
            firsts = {}
            for lane in alive:
                queue = self.state.lanes.keys[lane][0]
                if queue not in firsts or self.place(lane) < self.place(firsts[queue]):
                    firsts[queue] = lane
            if not firsts:
                return DONE, -1
            lane = min(firsts.values(), key=self.key)
            self.queued.discard(lane)
            self.table[lane, LINED] = 0
            queue, number, _, own = self.state.lanes.keys[lane]
            if own in self.state.reservations:
                return LOOK, lane
            late = own and self.state.jobs[own].not_before_us > self.state.now_us
            if late or number < 0 or self.state.policy.queues[queue].state == "draining":
                self.table[lane, CODE] = SEEN
                continue
            what = self.judged(lane, failed=False)
            if what != DONE:
                return what, lane

    def judge(self, lane, failed=False):
        """Go on with a group, then with the next."""
        what = self.judged(lane, failed)
        return (what, lane) if what != DONE else self.next()

    def judged(self, lane, failed):
        """Say what is to be done for a group."""
        rated = self.rated(lane)
        least = min(depth for _, depth, _ in rated)
        if not failed and least > self.tier[lane]:
            self.tier[lane] = least
            self.queued.add(lane)
            return DONE
        fits = [(index, depth) for index, depth, usable in rated if usable and self.has_room(lane, index)]
        self.may_start = [index for index, depth in fits if depth <= self.tier[lane]]
        self.may_use = [(index, depth) for index, depth, usable in rated if usable]
        if self.may_start and not failed:
            return START
        deeper = [depth for _, depth in fits if depth > self.tier[lane]]
        if deeper:
            self.tier[lane] = min(deeper)
            self.queued.add(lane)
            return DONE
        queue, number = self.state.lanes.keys[lane][:2]
        shape, closed = self.state.shapes[number], self.closed.setdefault(queue, [])
        for index, _ in self.may_use:
            if all(count <= self.state.nodes.ready_count[pool] for pool, _, count in shape.parts[index]):
                self.board.wanted[[pool for pool, _, _ in shape.parts[index]]] = 1
        self.table[lane, CODE], self.table[lane, CLOSED], self.table[lane, TIER] = SEEN, len(closed), self.tier[lane]
        if self.state.policy.queues[queue].order == "strict":
            for rung in shape.parts:
                closed.extend(pool for pool, _, _ in rung if pool not in closed)
            self.board.closing[queue, : len(closed)] = closed
        return HELP

    def startable(self, lane):
        """List the rungs that may start."""
        return self.may_start

    def usable(self, lane):
        """List the rungs that quota and order allow."""
        return self.may_use

    def lacks(self, lane, depth, part, due_us, found=None):
        """Remember nothing."""

    def owed(self, lane):
        """List the usable rungs that the queue owns, or would if lower priorities gave way."""
        return [(index, depth) for index, depth in self.may_use if self.is_owed(lane, index, depth)]

    def is_owed(self, lane, index, depth):
        """Say whether nodes may be freed for a rung."""
        state = self.state
        queue, number = state.lanes.keys[lane][:2]
        row = state.quota.rows[queue]
        if depth < len(row.path):
            return True
        jobs = [state.jobs[attempt.job] for attempt in state.attempts.values() if attempt.id in self.ran]
        if not any(state.queue_of(job) == queue and job.claim.priority < -self.head(lane)[0] for job in jobs):
            return False
        normalised = len(state.quota.kinds) - 1
        return all(
            need <= row.entitled[kind] and row.held[kind] <= row.entitled[kind]
            for kind, need in state.shapes[number].needs[index]
            if kind != normalised or row.own[kind] > 0
        )
