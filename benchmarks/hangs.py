"""Whether the right rank is named when real jobs hang, with torch's own analyser on the same dumps beside it.

    python benchmarks/hangs.py [--json] [FAULT ...]

Each fault of hang_job.py is made by real processes. from_dumps: judged by the Flight Recorder dumps alone; with_states:
with what the kernel says of the processes; with_stacks: with their stacks, too. torchfrtrace: what it prints of the
same dumps, in short; `fails` where it ends with an error; torchfrtrace_with_groups: the same after the groups' members,
which gloo does not record, were filled in.
"""

import argparse
import json
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from argosy.health.dumps import Dump, read_dump
from argosy.health.dumps_pickle import read_plain_pickle
from argosy.health.finding import Finding
from argosy.health.from_dumps import findings_of_dumps
from argosy.health.traces import Liveness, RankState
from hang_job import FAULTS

JOB_S = 240
TORCH_WORDS = re.compile(
    r"Culprit rank \d+[^\n]{0,80}|missing ranks: [^\n]{0,60}|Not all ranks[^\n]{0,80}"
    r"|missed FR dumps from ranks[^\n]{0,40}"
)


def make(fault: str, folder: Path) -> None:
    """Run a job into a fault in a process of its own."""
    script = Path(__file__).with_name("hang_job.py")
    subprocess.run([sys.executable, str(script), fault, str(folder)], check=True, timeout=JOB_S, capture_output=True)


def read_folder(folder: Path, *, stacks: bool) -> list[Dump]:
    """Read the dumps of a folder."""
    names = [*folder.glob("rank_*.json"), *(folder.glob("stack_rank_*.txt") if stacks else ())]
    found = []
    for path in sorted(names):
        data = path.read_bytes()
        dump = read_dump(str(path.relative_to(folder)), data[:65_536], data)
        found += [dump] if dump else []
    return found


def states_of(folder: Path) -> Liveness:
    """Read what the kernel said of the ranks."""
    states = json.loads((folder / "states.json").read_text())
    return Liveness(ranks={int(rank): RankState(**state) for rank, state in states.items()})


def judge(folder: Path) -> dict[str, Sequence[Finding]]:
    """Judge a folder with less and with more to go by."""
    plain, full, states = read_folder(folder, stacks=False), read_folder(folder, stacks=True), states_of(folder)
    return {
        "from_dumps": findings_of_dumps(plain),
        "with_states": findings_of_dumps(plain, states),
        "with_stacks": findings_of_dumps(full, states),
    }


def torch_says(folder: Path, *, with_groups: bool = False) -> str:
    """Run torch's own analyser on a folder's pickles.

    with_groups: fill in the groups' members, which gloo leaves out and without which the analyser can't begin.
    """
    with tempfile.TemporaryDirectory() as name:
        copy_pickles(folder, Path(name), with_groups=with_groups)
        command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", name, "-p", "nccl_trace_rank_"]
        command += ["--allow-incomplete-ranks"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    text = done.stdout + done.stderr
    if done.returncode:
        return f"fails: {text.strip().splitlines()[-1][:120]}"
    told = TORCH_WORDS.findall(text)
    return "; ".join(dict.fromkeys(told)) or "nothing"


def copy_pickles(folder: Path, to: Path, *, with_groups: bool) -> None:
    """Copy a folder's pickles, with the members of groups filled in where that is asked."""
    dumps = {path.name: read_plain_pickle(path.read_bytes()) for path in folder.glob("nccl_trace_rank_*")}
    members: dict[str, set[int]] = {}
    for name, dump in dumps.items():
        for entry in dump.get("entries", []):
            members.setdefault(entry["process_group"][0], set()).add(int(name.rsplit("_", 1)[1]))
    members["0"] = set(range(FAULTS[folder.name].size if folder.name in FAULTS else len(dumps)))
    for name, dump in dumps.items():
        if with_groups:
            groups = {entry["process_group"][0]: entry["process_group"][1] for entry in dump.get("entries", [])}
            dump["pg_config"] = {
                group: {"name": group, "desc": words, "ranks": str(sorted(members[group]))}
                for group, words in groups.items()
            }
        dump.setdefault("entries", [])
        (to / name).write_bytes(pickle.dumps(dump))


def short(found: Sequence[Finding]) -> list[list[str]]:
    """Give findings as (class, culprit, confidence)."""
    return [[each.fault_class, each.culprit.name, each.confidence] for each in found]


def main() -> None:
    """Make every fault and print what is said of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("faults", nargs="*", default=sorted(FAULTS))
    arguments = parser.parse_args()
    rows = []
    for fault in arguments.faults:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / fault
            make(fault, folder)
            said = judge(folder)
            wanted = FAULTS[fault].wanted
            right = {way: [(each.fault_class, each.culprit.name) for each in found] for way, found in said.items()}
            row = {
                "fault": fault,
                "wanted": wanted,
                "right": len(right["with_stacks"]) == 1 and right["with_stacks"][0] in wanted,
                "culprit_from_dumps": any(culprit == wanted[0][1] for _, culprit in right["from_dumps"]),
                **{way: short(found) for way, found in said.items()},
                "torchfrtrace": torch_says(folder),
                "torchfrtrace_with_groups": torch_says(folder, with_groups=True),
            }
        rows.append(row)
        if not arguments.json:
            print(json.dumps(row, indent=1))
    result = {
        "n": len(rows),
        "right": sum(bool(row["right"]) for row in rows),
        "culprit_from_dumps": sum(bool(row["culprit_from_dumps"]) for row in rows),
    }
    print(json.dumps(result | {"rows": rows} if arguments.json else result))


if __name__ == "__main__":
    main()
