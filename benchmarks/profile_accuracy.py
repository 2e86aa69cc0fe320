"""How far a real training on this machine's CPU is from what was predicted, by its profile and by the roofline.

    python benchmarks/profile_accuracy.py [--json] [--steps N] [--model CONFIG.json]

Measures a profile with `argosy profile`, then runs `argosy train` on the same model for a few and for more steps. What
a step takes is what the longer run took more, for each of its steps. Two figures are given: wall_step_ms by the clock,
which other programs on the machine lengthen, and cpu_step_ms, what the processes worked by the system's account, a
rank. A plan of whole replicas has ranks that work all the time, so on an idle machine the two are the same; on a busy
one only the second says how long the work takes. The errors are those of the second.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from command import start, whole_number

SEQUENCE_LENGTH, BATCH, MICROBATCH = 256, 16, 2
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 8,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "intermediate_size": 768,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def write_inputs(folder: Path, model: Path | None) -> None:
    """Write a job, its model and some text to train on: this interpreter's own library."""
    text = "".join(path.read_text(errors="ignore") for path in sorted(Path(os.__file__).parent.glob("*.py"))[:40])
    (folder / "corpus.txt").write_text(text)
    (folder / "config.json").write_text(model.read_text() if model else json.dumps(CONFIG))
    (folder / "job.yaml").write_text(
        "kind: train\nname: profiled\nmodel: ./config.json\ndata: {files: corpus.txt, tokenizer: bytes}\n"
        f"train: {{sequence_length: {SEQUENCE_LENGTH}, global_batch_size: {BATCH}, steps: 1, precision: fp32, "
        f"microbatch_size: {MICROBATCH}}}\n"
    )


def argosy(folder: Path, *arguments: str) -> tuple[str, float]:
    """Run a command of Argosy's in a folder; gives what it printed and the CPU seconds of all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "argosy.cli.main", *arguments], cwd=folder, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"argosy {' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def train(folder: Path, steps: int, *more: str) -> tuple[dict[str, Any], float]:
    """Train for some steps; gives the run's result and its CPU seconds."""
    # A folder of its own, so that no run goes on from another's checkpoint.
    where = f"runs/{steps}{'-'.join(more[:1])}"
    wanted = ("train", "job.yaml", "--json", "--directory", where, "--set", f"train.steps={steps}", *more)
    text, cpu_s = argosy(folder, *wanted)
    return json.loads(text.strip().splitlines()[-1]), cpu_s


def planned(folder: Path, *more: str) -> float:
    """Give the step that `argosy train` predicts, ms."""
    return float(train(folder, 1, *more)[0]["predicted"]["step_ms"])


def main(arguments: Sequence[str]) -> int:
    """Measure, and print predicted beside measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--steps", type=whole_number, default=16, help="of the longer run; the shorter has a quarter")
    parser.add_argument("--model", type=Path, help="a config.json in place of the small one here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, options.model)
        argosy(folder, "profile", "job.yaml", "--out", "profile.json")
        few, many = max(1, options.steps // 4), options.steps
        _, short_cpu_s = train(folder, few, "--profile", "profile.json")
        long, long_cpu_s = train(folder, many, "--profile", "profile.json")
        ranks = json.loads((folder / "profile.json").read_text())["tables"][0]["copies"]
        cpu_ms = (long_cpu_s - short_cpu_s) / (many - few) / ranks * 1e3
        by_profile, by_roofline = long["predicted"]["step_ms"], planned(folder)
    result = {
        "ranks": ranks,
        "cpu_step_ms": cpu_ms,
        "wall_step_ms": long["measured"]["step_ms"],
        "profile_step_ms": by_profile,
        "roofline_step_ms": by_roofline,
        "profile_error": by_profile / cpu_ms - 1,
        "roofline_error": by_roofline / cpu_ms - 1,
        "load": os.getloadavg()[0],
    }
    print(json.dumps(result) if options.json else "\n".join(f"{key:18} {value:.4g}" for key, value in result.items()))
    return 0


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
