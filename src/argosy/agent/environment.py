"""What a command finds in its environment: torchrun's variables, those that torchrun itself reads, and our own.

Pure. The user's variables come before the agent's own environment, and ours before both.
"""

from collections.abc import Mapping

from argosy.agent.processes import MARK, OURS
from argosy.contracts.talk import Meeting, StartRun


def rank_environment(
    base: Mapping[str, str], order: StartRun, meeting: Meeting, local_rank: int, *, node: str, folder: str
) -> dict[str, str]:
    """Make the environment of one process of this node. base: the agent's own; folder: marks the process as ours."""
    kept = {name: text for name, text in base.items() if not name.startswith((OURS, "PET_", "TORCHELASTIC_"))}
    gang, spec = order.gang, order.spec
    rank = str(gang.first_rank + local_rank)
    torch = {
        "MASTER_ADDR": meeting.host,
        "MASTER_PORT": str(meeting.port),
        "RANK": rank,
        "ROLE_RANK": rank,
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(gang.world_size),
        "ROLE_WORLD_SIZE": str(gang.world_size),
        "LOCAL_WORLD_SIZE": str(gang.ranks),
        "GROUP_RANK": str(gang.node_rank),
        "NODE_RANK": str(gang.node_rank),
        "GROUP_WORLD_SIZE": str(gang.nodes),
    }
    ours = {
        "ARGOSY_JOB": gang.job,
        "ARGOSY_ATTEMPT": order.attempt,
        "ARGOSY_GENERATION": str(order.generation),
        "ARGOSY_NODE": node,
        "ARGOSY_NODES": str(gang.nodes),
        "ARGOSY_NODE_RANK": str(gang.node_rank),
        "ARGOSY_CHIPS_PER_NODE": str(order.chips),
        "ARGOSY_RENDEZVOUS": f"{meeting.host}:{meeting.port}",
        MARK: folder,
    }
    launcher = launcher_environment(order, meeting) if spec.processes_per_node is None else {}
    return {**kept, **_threads(kept, order), **launcher, "PYTHONUNBUFFERED": "1", **spec.environment, **torch, **ours}


def launcher_environment(order: StartRun, meeting: Meeting) -> dict[str, str]:
    """Give what torchrun reads in place of its options, so that `torchrun train.py` alone spans all nodes.

    Its names are PET_ and the option's (torch.distributed.argparse_util.env, torch 2.13). The rendezvous is static:
    node 0 hosts it, and a restart of the gang comes with a new port.
    """
    return {
        "PET_NNODES": str(order.gang.nodes),
        "PET_NODE_RANK": str(order.gang.node_rank),
        "PET_NPROC_PER_NODE": str(max(order.chips, 1)),
        "PET_MASTER_ADDR": meeting.host,
        "PET_MASTER_PORT": str(meeting.port),
        "PET_RDZV_ENDPOINT": f"{meeting.host}:{meeting.port}",
        "PET_RDZV_ID": f"{order.attempt}-{order.generation}",
    }


def _threads(base: Mapping[str, str], order: StartRun) -> dict[str, str]:
    """Keep several processes of one node from starting threads for all its cores each, as torchrun does."""
    return {"OMP_NUM_THREADS": "1"} if order.gang.ranks > 1 and "OMP_NUM_THREADS" not in base else {}
