"""The reference data of Sailor (SOSP'25; eth-easl/sailor @cf2c8e3, MIT): profiles, networks, clusters, memory rule.

Files only; no arithmetic of plans. Times in seconds, sizes in bytes; Sailor trains in fp32.
"""

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argosy.contracts.errors import BadInputError
from argosy.plan.costs.profiles import Profile, known, read_profile

ZONE = "us-central1-a"
FLOAT_BYTES = 4
# DeepSpeed's all-reduce bucket as Sailor's simulator counts it: sailor_planner/constants.py, in bytes there.
BUCKET_BYTES = 500_000_000
# Per parameter: fp32 copy, gradient, two Adam moments, communication buffer, one more copy (runtime_simulator.py).
STATE_BYTES = 24
# What a process takes besides tensors when a plan is checked, without and with tensor parallelism (check_config_fits).
PROCESS_BYTES, PROCESS_BYTES_TP = 2.0e9, 3.0e9
# The same when a measured run's memory is predicted (get_memory_footprint_on_gpu).
MEASURED_PROCESS_BYTES = 4.76e9 + 300e6
# The fitted curves cross zero at small messages; there the rate is this part of the rate at 1 MB.
RATE_SHARE_MIN = 0.02
# Sailor sums gradients as if tensor parallelism cut them into so many shares at most (estimate_sync_time).
TP_DIVISOR_MAX = 4
CONFIGS = {"OPT-350": "training_config_opt_350.json", "GPT-Neo-2.7": "training_config_gpt_neo27.json"}

Coefficients = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What the cluster's file says of a chip: memory in bytes, chips in a node."""

    memory_bytes: float
    per_node: int


@dataclass(frozen=True, kw_only=True)
class Network:
    """Bandwidth between two machines in 10^9 bytes/s: a x^2 + b x + c with x = log2(bytes / 10^6)."""

    table: Mapping[str, Any]

    def coefficients(self, sender: tuple[str, int, str], receiver: tuple[str, int, str]) -> Coefficients:
        """Look up a pair of (chip, chips that send or receive, zone)."""
        place: Any = self.table
        keys = (sender[2], sender[0], str(sender[1]), receiver[2], receiver[0], str(receiver[1]))
        for key in keys:
            known(key, place, "network table (zone, chip, chips; sender then receiver)")
            place = place[key]
        a, b, c = place[0]
        return a, b, c

    @functools.lru_cache(maxsize=100_000)  # noqa: B019  the network lives as long as the program
    def transfer_s(self, size_bytes: float, sender: tuple[str, int, str], receiver: tuple[str, int, str]) -> float:
        """Give the time of one message."""
        if size_bytes <= 0:
            return 0.0
        a, b, c = self.coefficients(sender, receiver)
        x = math.log2(size_bytes / 1e6)
        return size_bytes / 1e9 / max((a * x + b) * x + c, RATE_SHARE_MIN * c)

    def reduce_s(self, size_bytes: float, members: int, sender: tuple[str, str], receiver: tuple[str, str]) -> float:
        """Give the time of a ring all-reduce in buckets, every hop as slow as this pair of (chip, zone)."""
        if members <= 1 or size_bytes <= 0:
            return 0.0
        full, rest = divmod(size_bytes, BUCKET_BYTES)
        ends = (sender[0], 1, sender[1]), (receiver[0], 1, receiver[1])
        whole = full * self.transfer_s(BUCKET_BYTES / members, *ends) if full else 0.0
        return 2 * (members - 1) * (whole + self.transfer_s(rest / members, *ends))

    def rings_s(self, sizes: Any, members: Any, sender: tuple[str, str], receiver: tuple[str, str]) -> Any:
        """Give the times of ring all-reduces as reduce_s does, of arrays of sizes and members."""
        a, b, c = self.coefficients((sender[0], 1, sender[1]), (receiver[0], 1, receiver[1]))
        members = np.asarray(members)
        full, rest = np.divmod(np.asarray(sizes, dtype=float), BUCKET_BYTES)

        def hop_s(size_bytes: Any) -> Any:
            x = np.log2(np.maximum(size_bytes, 1e-3) / 1e6)
            return size_bytes / 1e9 / np.maximum((a * x + b) * x + c, RATE_SHARE_MIN * c)

        return 2 * (members - 1) * (full * hop_s(BUCKET_BYTES / members) + hop_s(rest / members))

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One model on one kind of cluster: what a plan is timed with. batch: samples of a step."""

    profile: Profile
    network: Network
    chips: Mapping[str, Chip]
    batch: int

    @functools.cached_property
    def weight_bytes(self) -> tuple[int, ...]:
        """Bytes of every layer's gradients, not split."""
        return tuple(count * FLOAT_BYTES for count in self.profile.sized(1).parameters)

    @functools.cached_property
    def output_bytes(self) -> tuple[int, ...]:
        """Bytes that every layer passes on for one sample; tensor parallelism does not divide them in Sailor."""
        return tuple(count * FLOAT_BYTES for count in self.profile.sized(1).output)

    def chip(self, name: str) -> Chip:
        """Give a chip of the cluster; an error names the known ones."""
        known(name, self.chips, "chip")
        return self.chips[name]

    def held_bytes(self, layers: Sequence[int], tp: int, microbatch_size: int, in_flight: int) -> float:
        """Give the bytes that a stage's layers hold on one chip, with so many micro-batches kept for backward."""
        sizes = self.profile.sized(tp)
        parameters = sum(sizes.parameters[layer] for layer in layers)
        stored = sum(sizes.stored[layer] for layer in layers) * microbatch_size * FLOAT_BYTES
        return parameters * STATE_BYTES + stored * in_flight


def reference_folder(given: str = "") -> Path:
    """Find Sailor's folder of the reference data: as given, from ARGOSY_REFERENCE_DATA, or beside the checkout."""
    root = Path(os.environ.get("ARGOSY_REFERENCE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    folder = Path(given) if given else root / "planner" / "sailor"
    if not (folder / "profiles_tmp.json").is_file():
        raise BadInputError(
            f"no Sailor data in {folder}; set ARGOSY_REFERENCE_DATA to the folder of reference data or use --data"
        )
    return folder


def load_setting(folder: Path, model: str, batch: int = 0) -> Setting:
    """Read everything for one model; batch: the training config's global batch when 0."""
    if not batch:
        known(model, CONFIGS, "model with a training config")
        batch = int(json.loads((folder / "configs" / CONFIGS[model]).read_text())["global_batch_size"])
    profile = read_profile(
        (folder / "profiles_tmp.json").read_text(),
        "profiles_tmp.json",
        (folder / "llm_info.json").read_text(),
        "llm_info.json",
        model,
    )
    cluster = json.loads((folder / "configs" / "basic_cluster_config.json").read_text())
    chips = {
        name: Chip(memory_bytes=float(row["mem_per_gpu"]), per_node=int(row["gpus_per_node"]))
        for name, row in cluster.items()
        if isinstance(row, dict)
    }
    network = Network(table=json.loads((folder / "providers" / "multizone_bandwidths_het.json").read_text()))
    return Setting(profile=profile, network=network, chips=chips, batch=batch)
