"""The only file that touches private names of torch (checked with 2.13).

`new_group(use_local_synchronization=True)` names a group by its ranks *and by how many groups the caller has made*.
Ranks of an uneven pipeline belong to different numbers of groups, so members disagree on the name and wait for each
other for ever. Here the caller gives the name.
"""

from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d


def new_named_group(ranks: Sequence[int], name: str, timeout: timedelta) -> dist.ProcessGroup:
    """Make a process group of `ranks` (ascending, the caller among them); only they call, all with the same name."""
    world = c10d._get_default_group()
    backend, store = c10d._world.pg_map[world]
    group, _ = c10d._new_process_group_helper(
        len(ranks),
        list(ranks).index(dist.get_rank()),
        list(ranks),
        dist.Backend(backend),
        store,
        c10d.GroupName(name),
        timeout=timeout,
    )
    if not isinstance(group, dist.ProcessGroup):
        raise RuntimeError(f"torch made no process group for ranks {tuple(ranks)}")
    c10d._world.pg_group_ranks[group] = {rank: index for index, rank in enumerate(ranks)}
    return group
