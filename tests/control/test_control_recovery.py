"""Recovery decisions: which nodes stand in, what a job back in its queue keeps, and whose retries are used."""

from argosy.contracts.policy import Retries
from support.cores import Core, policy, queue, size

H = "north/h800"


class TestStandIns:
    def test_each_lost_node_is_replaced_from_its_own_rack(self):
        """Two nodes of two racks died; both stand-ins came from the first one's rack."""
        core = Core(policy(gather_s=2.0), north_h800=(8, 4, 8))
        small = [core.submit(size(H, 1)) for _ in range(8)]
        for number in (3, 4, 7, 8):
            core.end(small[number - 1])
        gang = core.submit(size(H, 4))
        for number in (1, 2, 5):
            core.end(small[number - 1])
        core.down("north-h800-3", "north-h800-7")
        core.wait(5)
        assert {name.rsplit("-", 1)[1] for name in core.held(gang)} == set("1458")


class TestBackInTheQueue:
    def test_a_gang_that_lost_a_node_holds_what_is_left(self):
        """It went back to its queue, and small jobs without time limits took its nodes for as long as they liked."""
        core = Core(policy(), north_h800=(4, 4, 4))
        gang, one = core.submit(size(H, 3)), core.submit(size(H, 1))
        core.down(core.held(gang)[0])
        core.wait(40)
        later = core.submit(size(H, 1))
        assert (gang.state, later.state) == ("reserved", "waiting")
        core.end(one).wait(1)
        assert (gang.state, later.state) == ("running", "waiting")


class TestRetries:
    def test_each_cause_has_its_own(self):
        """A fault of the machines, of the user's code, and an eviction each use up their own retries."""
        rules = policy(
            queue("own", guarantee={"h800": 32}),
            queue("poor"),
            retries=Retries(user=1, infrastructure=1, preemption=1),
        )
        core = Core(rules, north_h800=(4, 4, 4))
        job = core.submit(size(H, 4), queue="poor")
        core.end(job, "infrastructure").wait(10)
        core.end(job, "user").wait(10)
        core.end(core.submit(size(H, 4), queue="own")).wait(10)
        assert (job.state, job.spent) == ("running", {"infrastructure": 1, "user": 1, "preemption": 1})
        assert core.submit(size(H, 4), queue="own").state == "waiting"
