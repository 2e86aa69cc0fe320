"""How fast `argosy diagnose` reads logs, and in how much memory: megabytes a second of one core, peak megabytes.

Makes logs of a kind in a temporary folder, asks for a verdict in a process of its own, and reports CPU time, wall time
and peak memory of that process, start-up included (`start_s`, told apart). Kinds: `training` (Megatron-like steps
that name NaN on every line, eight ranks, colours, progress bars), `nccl` (NCCL INFO lines), `kernel` (syslog of a
healthy host), `warnings` (a harmless warning on every line), `flood` (one symptom on every line), `line` (one line
without end), and `training.gz`, beside which `gzip -dc` is timed alone (`unpack_mb_per_s`; `of_unpacking` is the share
of it that is reached). In each a memory error of a chip stands at three quarters; `found` says whether it was named.

    python benchmarks/diagnose_speed.py --megabytes 500 --json
"""

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command import start, whole_number

# It tells its own peak, for what the kernel tells the parent counts the parent's memory, too.
PROGRAM = """
import resource, sys
from argosy.cli.main import main
code = main(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
status = open("/proc/self/status").read()
print(usage.ru_utime + usage.ru_stime, status.split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(code)
"""
PIECE_LINES = 5_000
CLOCK_LINES_PER_S = 1_000
FAULT = (
    "2026-11-30T15:00:00Z node-17 kernel: NVRM: Xid (PCI:0000:5d:00): 48, pid=4102, name=python, DBE (double bit error)"
)


def clock(number: int) -> str:
    """Write the time of a line, a thousand of them a second."""
    seconds = number // CLOCK_LINES_PER_S
    return f"14:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{number % CLOCK_LINES_PER_S:03d}"


def training_line(number: int) -> str:
    """Write a line of training as Megatron's trainer and its neighbours print them."""
    rank = number % 8
    if number % 40 == 0:
        return (
            f"[rank{rank}]: 2026-11-30 {clock(number)} - INFO - saved checkpoint shard {rank} of step {number // 8}\n"
        )
    if number % 40 == 1:
        return (
            "\r".join(f"\x1b[32m{share}%\x1b[0m|{'#' * (share // 10):10}| {share}/100" for share in range(0, 101, 20))
            + "\n"
        )
    return (
        f" [2026-11-30 {clock(number)}] iteration {number:8d}/ 500000 | consumed samples: {number * 1024:12d} | "
        f"elapsed time per iteration (ms): {900 + number % 97:.1f} | learning rate: 3.000000E-04 | "
        f"lm loss: 2.{number % 1000:03d}000E+00 | grad norm: 0.{number % 900 + 100} | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def nccl_line(number: int) -> str:
    """Write a line as NCCL prints them when it is asked to say much."""
    rank = number % 8
    return (
        f"node-a:{2100 + rank}:{2177 + rank} [{rank}] NCCL INFO Channel {number % 32:02d}/0 : "
        f"{rank}[{rank}] -> {(rank + 1) % 8}[{(rank + 1) % 8}] [send] via NET/IB/{rank}/GDRDMA\n"
    )


def kernel_line(number: int) -> str:
    """Write a line of a healthy host's syslog."""
    return f"2026-11-30T{clock(number)}Z node-17 systemd[1]: Started session {number} of user root, uid {number % 7}.\n"


def warning_line(number: int) -> str:
    """Write a line that a signature knows, whatever its number."""
    return f"[rank{number % 8}]: 2026-11-30 {clock(number)} UserWarning: the input of step {number} is not contiguous\n"


def flood_line(number: int) -> str:
    """Write a line of a rank that tries in vain to reach another."""
    return (
        f"[rank{number % 8}]:[W1130 {clock(number)} socket.cpp:755] [c10d] The client socket has failed to connect to "
        f"[node-a]:{29500 + number % 8} (errno: 111 - Connection refused).\n"
    )


def endless_line(number: int) -> str:
    """Write a piece of a line that does not end."""
    return f"token {number} "


KINDS = {
    "training": training_line,
    "nccl": nccl_line,
    "kernel": kernel_line,
    "warnings": warning_line,
    "flood": flood_line,
    "line": endless_line,
    "training.gz": training_line,
}


def pieces(kind: str, size_bytes: int) -> Iterator[bytes]:
    """Make a log piece by piece, with the fault at three quarters."""
    written, number, told = 0, 0, False
    while written < size_bytes:
        piece = "".join(KINDS[kind](index) for index in range(number, number + PIECE_LINES)).encode()
        number += PIECE_LINES
        # Made once and repeated, for making lines takes longer than reading them.
        for _ in range(20):
            if not told and written >= size_bytes * 3 // 4:
                told = True
                yield f"\n{FAULT}\n".encode() if kind != "line" else f" {FAULT} ".encode()
            yield piece
            written += len(piece)
            if written >= size_bytes:
                break


def measured(arguments: list[str]) -> dict[str, Any]:
    """Run `argosy diagnose --json` in a process of its own; CPU and wall seconds, peak memory, and what it said."""
    begun_s = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, "diagnose", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    cpu_s, peak_kb = done.stderr.splitlines()[-1].split()
    return {
        "cpu_s": float(cpu_s),
        "wall_s": time.perf_counter() - begun_s,
        "peak_mb": int(peak_kb) * 1.024e-3,
        "answer": json.loads(done.stdout) if done.returncode == 0 else None,
    }


def unpack_mb_per_s(path: Path, size_bytes: int) -> float | None:
    """Measure what unpacking alone takes: `gzip -dc`, in megabytes of text per CPU second; None where there is none."""
    program = shutil.which("gzip")
    if program is None:
        return None
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "-dc", str(path)], stdout=subprocess.DEVNULL, check=True)
    done = resource.getrusage(resource.RUSAGE_CHILDREN)
    return size_bytes / 1e6 / (done.ru_utime + done.ru_stime - begun.ru_utime - begun.ru_stime)


def row(kind: str, megabytes: int, folder: Path) -> dict[str, Any]:
    """Measure one kind of log."""
    path = folder / f"node-17.{kind}"
    with gzip.open(path, "wb", 1) if kind.endswith(".gz") else path.open("wb") as file:
        for piece in pieces(kind, megabytes * 1_000_000):
            file.write(piece)
    tiny = folder / "tiny.log"
    tiny.write_text("x\n")
    start_s = measured([str(tiny)])["cpu_s"]
    found = measured([str(path)])
    answer = found["answer"] or {"incidents": [], "read": {"bytes": 0, "lines": 0}}
    size_bytes = answer["read"]["bytes"]
    unpack = unpack_mb_per_s(path, size_bytes) if kind.endswith(".gz") else None
    path.unlink()
    mb_per_s = size_bytes / 1e6 / max(found["cpu_s"] - start_s, 1e-9)
    return {
        "kind": kind,
        "megabytes": round(size_bytes / 1e6, 1),
        "lines": answer["read"]["lines"],
        "mb_per_s": round(mb_per_s, 1),
        "unpack_mb_per_s": unpack and round(unpack, 1),
        "of_unpacking": unpack and round(mb_per_s / unpack, 2),
        "cpu_s": round(found["cpu_s"], 2),
        "start_s": round(start_s, 2),
        "wall_s": round(found["wall_s"], 2),
        "peak_mb": round(found["peak_mb"], 1),
        "found": any(incident["fault_class"].startswith("gpu.ecc") for incident in answer["incidents"]),
    }


def main() -> int:
    """Measure the kinds that are asked for, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=whole_number, default=200, help="size of each log, unpacked")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(kind, asked.megabytes, Path(folder)) for kind in asked.kinds]
    if asked.json:
        print(json.dumps({"rows": rows}))
        return 0
    print(f"{'kind':12} {'MB':>8} {'MB/s':>8} {'CPU s':>7} {'start s':>8} {'peak MB':>8}  found")
    for one in rows:
        ratio = f"  {one['of_unpacking']:.0%} of gzip -dc alone" if one["of_unpacking"] else ""
        print(
            f"{one['kind']:12} {one['megabytes']:8,.0f} {one['mb_per_s']:8,.0f} {one['cpu_s']:7.2f} "
            f"{one['start_s']:8.2f} {one['peak_mb']:8,.0f}  {'yes' if one['found'] else 'no'}{ratio}"
        )
    return 0


if __name__ == "__main__":
    start(main)
