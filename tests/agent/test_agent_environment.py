"""What a command finds in its environment."""

import msgspec

from argosy.agent.environment import rank_environment
from argosy.contracts.talk import Gang, Meeting
from support.talk_server import start_run

MEETING = Meeting(host="10.0.0.1", port=4711)
GANG = Gang(job="job-1", nodes=2, node_rank=1, first_rank=2, ranks=2, world_size=4, meeting=MEETING)


def environment(base=None, local_rank=1, **fields):
    """Make the environment of a process on the second of two nodes."""
    order = msgspec.structs.replace(start_run("x", generation=3, **fields), gang=GANG)
    return rank_environment(base or {}, order, MEETING, local_rank, node="n2", folder="/f")


class TestRankEnvironment:
    def test_what_torchrun_sets_is_set(self):
        """A process that expects torchrun's variables runs without it."""
        found = environment(processes_per_node=2)
        wanted = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
        wanted |= {"GROUP_RANK": "1", "NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4711"}
        assert {name: found[name] for name in wanted} == wanted

    def test_our_own_variables(self):
        """A launcher learns how many nodes there are and where to meet."""
        found = environment()
        wanted = {"ARGOSY_NODES": "2", "ARGOSY_NODE_RANK": "1", "ARGOSY_RENDEZVOUS": "10.0.0.1:4711"}
        wanted |= {"ARGOSY_JOB": "job-1", "ARGOSY_ATTEMPT": "job-1.1", "ARGOSY_GENERATION": "3", "ARGOSY_NODE": "n2"}
        assert {name: found[name] for name in wanted} == wanted

    def test_torchrun_needs_no_options(self):
        """A launcher finds torchrun's options in its environment; a plain process doesn't."""
        found = environment()
        assert (found["PET_NNODES"], found["PET_NODE_RANK"], found["PET_NPROC_PER_NODE"]) == ("2", "1", "2")
        assert found["PET_RDZV_ENDPOINT"] == "10.0.0.1:4711"
        assert not [name for name in environment(processes_per_node=2) if name.startswith("PET_")]

    def test_the_job_wins_over_the_agent_and_we_over_the_job(self):
        """The job's variables replace the agent's; what tells ranks apart can't be replaced."""
        found = environment({"HOME": "/a", "LANG": "x"}, environment={"LANG": "y", "RANK": "9"}, processes_per_node=2)
        assert (found["HOME"], found["LANG"], found["RANK"]) == ("/a", "y", "3")

    def test_the_agents_own_secrets_stay_with_it(self):
        """What is meant for the agent, such as its join token, doesn't reach a job."""
        found = environment({"ARGOSY_JOIN_TOKEN": "secret", "PET_NNODES": "7"}, processes_per_node=2)
        assert "ARGOSY_JOIN_TOKEN" not in found
        assert "PET_NNODES" not in found

    def test_processes_of_one_node_share_its_cores(self):
        """Several processes a node get one thread each unless somebody says otherwise."""
        assert environment(processes_per_node=2)["OMP_NUM_THREADS"] == "1"
        assert environment(processes_per_node=2, environment={"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"
        assert environment({"OMP_NUM_THREADS": "3"}, processes_per_node=2)["OMP_NUM_THREADS"] == "3"
