"""Builders for training tests: a tiny model, a token set, plans by their shape, and a run of a plan on forked
processes.

The reference run is a plain loop on one process that shares no code with the trainer but the decoder and the data's
order.
"""

import itertools
import multiprocessing
import os
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from hypothesis import strategies as st
from torch.nn import functional

from argosy.contracts.job import CheckpointSpec, DataSpec, Job, TrainSpec
from argosy.contracts.messages import Launch, StepDone, Upward
from argosy.contracts.plan import Plan, RankPlace, Replica, Send, Stage, Wire
from argosy.model.config import read_config
from argosy.model.shape import ModelShape
from argosy.train.data.tokens import TokenMeta, TokenSet
from argosy.train.decoder import StageModel
from argosy.train.initial import draw
from argosy.train.optimizer import learning_rate
from argosy.train.rank import run_rank
from support.worlds import Ended, fork_ranks, hosted_store

torch.set_num_threads(1)


def config(layers: int = 6, *, tied: bool = False, qk_norm: bool = False, hidden: int = 32, vocab: int = 64) -> str:
    """Write the config.json of a tiny model."""
    import json

    family = "qwen3" if qk_norm else "llama"
    return json.dumps(
        {
            "model_type": family,
            "architectures": ["Qwen3ForCausalLM" if qk_norm else "LlamaForCausalLM"],
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": hidden // 4,
            "intermediate_size": 2 * hidden,
            "vocab_size": vocab,
            "max_position_embeddings": 128,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": tied,
        }
    )


def shape_of(text: str) -> ModelShape:
    """Read a tiny model's shape."""
    return read_config(text, "tiny")


def tokens(folder: Path, *, count: int = 20_000, vocab: int = 64) -> Path:
    """Write a token set of seeded noise with structure enough to learn."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(7)
    walk = np.cumsum(generator.integers(0, 3, count)) % vocab
    walk.astype("<u2").tofile(folder / "tokens.bin")
    meta = TokenMeta(
        tokens=count,
        dtype="uint16",
        vocab_size=vocab,
        end_of_text=0,
        documents=1,
        files=1,
        text_bytes=count,
        tokenizer="bytes",
        tokenizer_s=0.0,
    )
    from argosy.contracts.codec import encode

    (folder / "meta.json").write_bytes(encode(meta))
    return folder


def job(
    *,
    steps: int = 20,
    batch: int = 8,
    length: int = 16,
    precision: str = "fp32",
    to: Path | None = None,
    every: int = 10,
) -> Job:
    """Say how to train the tiny model; the learning rate is high so that differences grow where there are any."""
    train = TrainSpec(
        sequence_length=length,
        global_batch_size=batch,
        steps=steps,
        learning_rate=3e-3,
        minimum_learning_rate=3e-4,
        warmup_steps=3,
        clip_norm=0.5,
        precision=precision,
    )
    checkpoint = None if to is None else CheckpointSpec(to=str(to), every_steps=every)
    return Job(name="tiny", model="tiny", data=DataSpec(files=("x",)), train=train, checkpoint=checkpoint)


def replica(layers: Sequence[int], microbatches: int, *, size: int = 1, tp: int = 1) -> Replica:
    """Build one replica from the layer counts of its stages."""
    ends = np.cumsum(layers).tolist()
    stages = tuple(
        Stage(
            first_layer=end - count,
            end_layer=end,
            chip_class="here/cpu",
            forward_ms=0.0,
            backward_ms=0.0,
            backward_shares=(),
            tp=tp,
        )
        for end, count in zip(ends, layers, strict=True)
    )
    sends = tuple(Send(wire="node", payload_bytes=0) for _ in stages[1:])
    return Replica(stages=stages, microbatches=microbatches, microbatch_size=size, sends=sends)


def plan(
    shape: ModelShape,
    replicas: Sequence[Replica],
    spec: TrainSpec,
    *,
    schedule: str = "1f1b",
    zero: int = 0,
    bucket_bytes: int = 0,
    virtual: int = 1,
) -> Plan:
    """Build a plan and number its ranks in order; each unit travels alone unless buckets are given a size."""
    ranks, places = 0, []
    bound: list[Replica] = []
    for r, each in enumerate(replicas):
        stages: list[Stage] = []
        for s, stage in enumerate(each.stages):
            if virtual > 1 and s >= len(each.stages) // virtual:
                stages.append(replace(stage, ranks=stages[s % (len(each.stages) // virtual)].ranks))
                continue
            mine = tuple(range(ranks, ranks + stage.tp))
            places += [
                RankPlace(rank=k, node="here-1", chip=k, replica=r, stage=s, tp_index=i) for i, k in enumerate(mine)
            ]
            stages.append(replace(stage, ranks=mine))
            ranks += stage.tp
        bound.append(replace(each, stages=tuple(stages)))
    return Plan(
        model="tiny",
        num_layers=shape.num_layers,
        fleet="here",
        sequence_length=spec.sequence_length,
        global_batch_size=spec.global_batch_size,
        replicas=tuple(bound),
        precision=spec.precision,
        schedule=schedule,
        virtual_stages=virtual,
        zero_stage=zero,
        bucket_bytes=bucket_bytes,
        tied_embeddings=shape.tied_embeddings,
        wires=(Wire(name="node", gbps=100, one_way_ms=0),),
        placement=tuple(places),
    )


def run_plan(
    the_plan: Plan, the_job: Job, config_text: str, token_folder: Path, directory: Path, *, board: str = ""
) -> list[Upward]:
    """Run a plan on forked processes; gives all reports. Raises RuntimeError with a failing rank's traceback."""
    context = multiprocessing.get_context("fork")
    port_here, port_there = context.Pipe()
    store = context.Process(target=_host_store, args=(port_there,), daemon=True)
    store.start()
    launch = replace(
        launch_of(the_plan, the_job, config_text, token_folder, directory, port=port_here.recv()), board=board
    )
    started = []
    for rank in range(the_plan.world_size):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_rank, args=(launch, rank, there), daemon=True)
        process.start()
        there.close()
        started.append((process, here))
    reports: list[Upward] = []
    waiting = {connection: process for process, connection in started}
    while waiting:
        for connection in multiprocessing.connection.wait(list(waiting), timeout=120) or _stuck(waiting):
            try:
                item = connection.recv()
            except EOFError:
                waiting.pop(connection).join(30)
                continue
            if isinstance(item, str):
                _kill(waiting)
                raise RuntimeError(item)
            reports.append(item)
    port_here.send("done")
    store.join()
    return reports


def _host_store(pipe: Connection) -> None:
    # Not in the test's own process: the store's threads would make the forks that follow unsafe.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    pipe.poll(None)


def _stuck(waiting: dict[Connection, multiprocessing.Process]) -> list[Connection]:
    _kill(waiting)
    raise RuntimeError(f"{len(waiting)} ranks said nothing for 120 s")


def _kill(waiting: dict[Connection, multiprocessing.Process]) -> None:
    for process in waiting.values():
        process.kill()


def _rank(launch: Launch, rank: int, pipe: Connection) -> None:
    torch.set_num_threads(1)
    try:
        run_rank(launch, rank, pipe.send)
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        pipe.close()
        os._exit(1)


def losses(reports: Sequence[Upward]) -> list[float]:
    """Pick the loss of every step."""
    return [report.loss for report in reports if isinstance(report, StepDone)]


def reference_losses(shape: ModelShape, the_job: Job, token_folder: Path) -> list[float]:
    """Train the whole model in one process by a plain loop; gives the loss of every step."""
    spec = the_job.train
    model = StageModel(shape, list(shape.units), sequence_length=spec.sequence_length)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(draw(shape, spec.seed, name, tuple(parameter.shape)))
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": spec.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=spec.learning_rate, betas=spec.betas, eps=spec.epsilon)
    data = TokenSet(token_folder, sequence_length=spec.sequence_length)
    out = []
    for step in range(spec.steps):
        rows = torch.from_numpy(data.batch(step, spec.global_batch_size, spec.seed))
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), spec.clip_norm)
        for group in adamw.param_groups:
            group["lr"] = learning_rate(spec, step)
        adamw.step()
        out.append(loss.item())
    return out


def launch_of(
    the_plan: Plan, the_job: Job, config_text: str, token_folder: Path, directory: Path, *, port: int
) -> Launch:
    """Say what the ranks of a plan are given."""
    return Launch(
        attempt="test",
        generation=0,
        plan=the_plan,
        job=the_job,
        model_config=config_text,
        store_host="127.0.0.1",
        store_port=port,
        tokens=str(token_folder),
        directory=str(directory),
    )


@st.composite
def drawn_replicas(
    draw: st.DrawFn, layers: int = 6, *, replicas_max: int = 4, degrees: Sequence[int] = (1, 2, 4), virtual: int = 1
) -> list[Replica]:
    """Draw replicas of any stage split and TP degree; they need no processes, so there may be many ranks."""
    drawn = []
    for _ in range(draw(st.integers(1, replicas_max))):
        stages = draw(st.integers(2, layers // virtual)) * virtual if virtual > 1 else draw(st.integers(1, 4))
        cuts = draw(st.lists(st.integers(1, layers - 1), min_size=stages - 1, max_size=stages - 1, unique=True))
        edges = [0, *sorted(cuts), layers]
        counts = [end - start for start, end in itertools.pairwise(edges)]
        drawn.append(replica(counts, draw(st.integers(stages, 6)), tp=draw(st.sampled_from(degrees))))
    return drawn


def plan_of(
    replicas: Sequence[Replica],
    text: str | None = None,
    *,
    zero: int = 0,
    bucket_bytes: int = 0,
    schedule: str = "1f1b",
    virtual: int = 1,
) -> Plan:
    """Build a bound plan of a tiny model from its replicas alone."""
    spec = job(batch=sum(each.sequences for each in replicas)).train
    how = {"schedule": schedule, "virtual": virtual}
    return plan(shape_of(text or config()), replicas, spec, zero=zero, bucket_bytes=bucket_bytes, **how)


def end_ranks(
    the_plan: Plan, the_job: Job, config_text: str, token_folder: Path, directory: Path, *, timeout_s: float = 90
) -> list[Ended]:
    """Run a plan on forked processes that may fail; gives how every rank ended, and what each reported."""
    with hosted_store() as port:
        launch = launch_of(the_plan, the_job, config_text, token_folder, directory, port=port)
        body = partial(run_rank, launch)
        return fork_ranks(the_plan.world_size, body, timeout_s=timeout_s)
