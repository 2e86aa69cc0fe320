"""What must hold in every simulated life, whatever breaks: checked while it runs, and once all is calm again.

Reads server, agents and log; must not change anything.
"""

from argosy.contracts.command import RunPass
from argosy.contracts.event import AttemptEnded, IncidentFound, PassDue
from argosy.control.change import AttemptBegan, AttemptRegrouped, Record, Refused
from argosy.control.explain import explain, noted_of
from argosy.control.validate import problems
from argosy.control.why import shut_out
from argosy.simulate.server import Server

CHECK_EVERY = 16
REPLAY_EVERY = 500
EXPLAIN_EVERY = 8


class Rules:
    """Collects broken rules, in words, and stops the life at the first."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.broken: list[str] = []
        self._acted: set[str] = set()
        self._passes = 0
        server.kept.after_event = self.check

    def is_broken(self) -> bool:
        """Say whether a rule was broken."""
        return bool(self.broken)

    def is_over(self) -> bool:
        """Say whether every job has ended and every node is free."""
        state = self.server.state
        return self.server.up and not state.waiting and not state.attempts

    def check(self, record: Record) -> None:
        """Check the state every few events, reasons after every pass, and agents always."""
        server = self.server
        if isinstance(record.event, PassDue):
            self._check_reasons(any(isinstance(command, RunPass) for command in record.commands))
        self._check_launches(record)
        if isinstance(record.event, AttemptEnded | IncidentFound):
            self._check_evidence(record)
        for agent in server.agents.values():
            if agent.clashes:
                self.broken += [f"two attempts at once on {clash}" for clash in agent.clashes]
                agent.clashes.clear()
        if server.events % CHECK_EVERY == 0:
            self.broken += problems(server.state)
        if server.events % REPLAY_EVERY == 0:
            self._check_replay()

    def _check_launches(self, record: Record) -> None:
        """Check that nothing is launched on a node that is known to be down, is retired, or has failed the job."""
        nodes, attempts = self.server.state.nodes, self.server.state.attempts
        for change in record.changes:
            if isinstance(change, AttemptBegan | AttemptRegrouped):
                down = [n for part in change.nodes for n in part if nodes.observed[n] == "down"]
                if down:
                    self.broken.append(f"{change.attempt} is launched on {nodes.shown(down)}, which is down")
                avoid = self.server.state.jobs[attempts[change.attempt].job].avoid if change.attempt in attempts else ()
                bad = [n for part in change.nodes for n in part if n in avoid or nodes.retired[n]]
                if bad:
                    self.broken.append(f"{change.attempt} is launched on {nodes.shown(bad)}, which it must not have")

    def _check_evidence(self, record: Record) -> None:
        """Check that no piece of evidence acts twice."""
        evidence = getattr(record.event, "evidence", "")
        if evidence and any(not isinstance(change, Refused) for change in record.changes):
            if evidence in self._acted:
                self.broken.append(f"evidence {evidence} acts a second time")
            self._acted.add(evidence)

    def _check_reasons(self, again: bool) -> None:
        """Check that the pass noted a reason for every job that waits, or that another pass is due.

        Like jobs have one reason; it is put into words for some queues after each pass, for others after the next.
        """
        state = self.server.state
        self._passes += 1
        for group, members in state.waiting.items():
            said = again or noted_of(state, state.jobs[members[0][2]]) is not None
            if said and (self._passes + group[0]) % EXPLAIN_EVERY == 0:
                why = explain(state, members[-1][2])
                said = why is not None and why.text != "" and (again or why.code != "NEXT_PASS")
            if not said:
                self.broken.append(f"{members[0][2]} waits and the pass does not say why")

    def _check_replay(self) -> None:
        """Rebuild the state from the log and compare it byte for byte; decide anew and compare the records."""
        if text := self.server.kept.problem(self.server.state):
            self.broken.append(text)

    def at_the_end(self) -> None:
        """Check that calm brought every job to its end, and that those that wait have a reason."""
        state = self.server.state
        self.broken += problems(state)
        self._check_replay()
        for job in state.jobs.values():
            # A job that failed on some node of every domain wide enough waits for new nodes, as it should.
            if job.state == "ended" or (job.state == "waiting" and shut_out(state, job)):
                continue
            why = explain(state, job.id)
            reason = f"{why.code} {why.text}" if why else job.reason
            self.broken.append(f"{job.id} is still {job.state} after the calm: {reason}")
