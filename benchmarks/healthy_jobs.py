"""Small healthy training jobs in several frameworks, run for their logs: what diagnosis must not call a fault.

`python benchmarks/healthy_jobs.py --out FOLDER` runs each framework that is installed with two processes on this
machine's CPU, all its debug output on, and writes one log each. The logs in tests/health/healthy were made so.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from command import start

STEPS = 120
TIMEOUT_S = 300
DEBUG = {
    "TORCH_DISTRIBUTED_DEBUG": "INFO",
    "TORCH_CPP_LOG_LEVEL": "INFO",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


def main() -> None:
    """Run the jobs from outside, or one from inside its launcher."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("healthy"))
    parser.add_argument("--inside", choices=sorted(JOBS))
    options = parser.parse_args()
    if options.inside:
        JOBS[options.inside]()
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name in JOBS:
        if name in ("accelerate", "lightning") and importlib.util.find_spec(name) is None:
            print(f"{name}: not installed, skipped")
            continue
        launch = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d"]
        write_log(options.out / f"{name}.log", [*launch, "--rdzv-endpoint=localhost:0", __file__, "--inside", name])
    command = str(Path(sys.executable).with_name("argosy"))
    sets = (f"train.steps={STEPS // 2}", "train.warmup_steps=5", f"checkpoint.to={options.out / 'run'}")
    job = [command, "train", "examples/jobs/here.yaml", *(part for each in sets for part in ("--set", each))]
    write_log(options.out / "argosy.log", job)


def write_log(path: Path, arguments: list[str]) -> None:
    """Run Python with arguments and write what it prints, with this machine's paths made plain."""
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **DEBUG},
        timeout=TIMEOUT_S,
        check=False,
        text=True,
    )
    root = str(Path(__file__).resolve().parents[1])
    text = done.stdout.replace(root, "/home/user/argosy").replace(sys.prefix, "/home/user/venv")
    path.write_text(text)
    print(f"{path}: code {done.returncode}, {len(text.splitlines())} lines")


def _ddp() -> None:
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    _steps(model, torch.optim.AdamW(model.parameters()))
    distributed.barrier()
    distributed.destroy_process_group()


def _fsdp() -> None:
    import torch
    from torch import distributed
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    fully_shard(model)
    _steps(model, torch.optim.AdamW(model.parameters()))
    distributed.destroy_process_group()


def _torchrun() -> None:
    import logging

    import torch

    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    rank = os.environ["RANK"]
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        logging.info("rank %s step %d loss %.4f grad_norm %.3f", rank, step, loss.item(), 1.0)
    torch.save(model.state_dict(), os.devnull)


def _accelerate() -> None:
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(16, 4)
    data = torch.utils.data.DataLoader(torch.randn(STEPS * 8, 16), batch_size=8, num_workers=1)
    model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), data)
    for step, batch in enumerate(data):
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step {step} loss {loss.item():.4f}")
    accelerator.end_training()


def _lightning() -> None:
    import lightning
    import torch

    class Small(lightning.LightningModule):
        """A linear model."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 4)

        def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
            """Give the loss, and print it."""
            loss = self.layer(batch).square().mean()
            self.log("train_loss", loss)
            self.print(f"step {self.global_step} loss {loss.item():.4f}")
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """Give AdamW."""
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.DataLoader(torch.randn(STEPS * 8, 16), batch_size=8)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False
    )
    trainer.fit(Small(), data)


def _steps(model: "object", optimizer: "object") -> None:
    import torch

    for step in range(STEPS):
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"[rank {torch.distributed.get_rank()}] step {step} loss {loss.item():.4f}")


JOBS: dict[str, Callable[[], None]] = {
    "accelerate": _accelerate,
    "ddp": _ddp,
    "fsdp2": _fsdp,
    "lightning": _lightning,
    "torchrun": _torchrun,
}


if __name__ == "__main__":
    start(main)
