"""How long it takes to turn a chosen option and real nodes into a plan with ranks, up to 1,024 nodes of 8 chips.

Options of llama-3-70b on 1,024 nodes in two sites, as the planner offers them, the largest size of each bound to the
nodes it asks for; and the hardest layout to bind, 8,192 replicas of one chip each. Prints a table, or JSON with --json.
"""

import argparse
import gc
import json
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial

from argosy.contracts.codec import encode
from argosy.contracts.fleet import Fleet, LongLink, Nics, Node, NodeGroup, Site
from argosy.contracts.job import DataSpec, Job, TrainSpec
from argosy.contracts.option import Size
from argosy.contracts.plan import Plan, Replica, Stage
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.classes import chip_classes, fleet_nodes
from argosy.model.config import read_config
from argosy.model.named import config_text
from argosy.plan.bind import bind
from argosy.plan.bind_option import bind_option
from argosy.plan.offering import Offering
from argosy.plan.options import options_for
from command import start, whole_number

MODEL, NODES, NODE_CHIPS = "llama-3-70b", 1024, 8
JOB = Job(
    name="bind",
    model=MODEL,
    data=DataSpec(files=("none",)),
    train=TrainSpec(sequence_length=8192, global_batch_size=2048, steps=1),
)


def make_fleet(nodes: int) -> Fleet:
    """Describe a fleet of two sites with half the nodes each."""
    kinds = (("north", "h800-sxm", 400.0), ("south", "ascend-910b3", 200.0))
    return Fleet(
        name="two-sites",
        sites=tuple(Site(name=site) for site, _, _ in kinds),
        nodes=tuple(
            NodeGroup(
                site=site,
                chip=chip,
                chips_per_node=NODE_CHIPS,
                count=nodes // 2,
                nics=Nics(count=8, gbps=gbps),
                rack=4,
                spine=32,
            )
            for site, chip, gbps in kinds
        ),
        long_links=(LongLink(between=("north", "south"), km=50, gbps=1600),),
    )


def offered(nodes: int) -> tuple[Offering, tuple[Node, ...]]:
    """Offer the job the fleet."""
    fleet = make_fleet(nodes)
    classes = chip_classes(fleet, load_catalogue(None))
    shape = read_config(*config_text(MODEL))
    return options_for(JOB, shape, classes, fleet.long_links), fleet_nodes(fleet)


def given_for(size: Size, nodes: tuple[Node, ...]) -> list[Node]:
    """Take the nodes that a size asks for."""
    return [node for part in size.parts for node in [n for n in nodes if n.chip_class == part.chip_class][: part.nodes]]


def single_chips(chips: int) -> Plan:
    """Make a plan of so many replicas of one chip each."""
    stage = Stage(
        first_layer=0,
        end_layer=1,
        chip_class="north/h800-sxm",
        forward_ms=1.0,
        backward_ms=2.0,
        backward_shares=(1.0,),
    )
    replica = Replica(stages=(stage,), microbatches=1, microbatch_size=1)
    return Plan(
        model="one-layer",
        num_layers=1,
        fleet="two-sites",
        sequence_length=1,
        global_batch_size=chips,
        replicas=(replica,) * chips,
    )


def measure(name: str, repeats: int, work: Callable[[], Plan]) -> dict[str, object]:
    """Time some work, on the wall's clock and in CPU seconds."""
    walls, cpus = [], []
    for _ in range(repeats):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        plan = work()
        walls.append((time.perf_counter() - wall) * 1e3)
        cpus.append((time.process_time() - cpu) * 1e3)
    nodes = len({place.node for place in plan.placement})
    return {
        "name": name,
        "nodes": nodes,
        "chips": plan.world_size,
        "replicas": len(plan.replicas),
        "median_ms": round(statistics.median(walls), 2),
        "worst_ms": round(max(walls), 2),
        "median_cpu_ms": round(statistics.median(cpus), 2),
    }


def main() -> None:
    """Offer once, then bind the largest size of every option, and single chips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=whole_number, default=NODES)
    parser.add_argument("--repeats", type=whole_number, default=9)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    north = [
        Node(name=f"north-{index}", site="north", chip_class="north/h800-sxm", chips=NODE_CHIPS)
        for index in range(options.nodes)
    ]
    lone = single_chips(options.nodes * NODE_CHIPS)
    rows.append(measure("a replica a chip", options.repeats, partial(bind, lone, north)))
    begun = time.process_time()
    offering, fleet = offered(options.nodes)
    offer_cpu_s = time.process_time() - begun
    for option in offering.options:
        given = given_for(option.ladder[0], fleet)
        rows.append(measure(option.name, options.repeats, partial(bind_option, offering, option.name, 0, given)))
    result = {
        "cases": rows,
        "sizes_offered": sum(len(option.ladder) for option in offering.options),
        "offer_cpu_s": round(offer_cpu_s, 2),
        "options_bytes": len(encode(offering.options)),
        "offering_bytes": len(encode(offering)),
        "peak_rss_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
    }
    if options.json:
        print(json.dumps(result))
        return
    for row in rows:
        print(
            f"{row['name']:44} {row['nodes']:5} nodes {row['chips']:6} chips {row['replicas']:5} replicas   "
            f"median {row['median_ms']:6} ms   worst {row['worst_ms']:6} ms   CPU {row['median_cpu_ms']:6} ms"
        )
    print(f"{result['sizes_offered']} sizes offered in {result['offer_cpu_s']} s of CPU")


if __name__ == "__main__":
    start(main)
