"""Reading `job.yaml`."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.job import CheckpointSpec, ChipsSpec, DataSpec, Objective
from argosy.contracts.job_file import JobFile, read_job

TEXT = """\
kind: train
name: llama-8b
queue: research
model: llama-3-8b                 # a named config, or a path to a config.json
data:   {files: "corpus/*.parquet", text_field: text, tokenizer: tokenizer.json}
train:  {sequence_length: 8192, global_batch_size: 1024, steps: 20000, learning_rate: 3e-4, precision: bf16}
chips:  {allow: [h800-sxm, ascend-910b3], min: 256, max: 1280}
time_limit: 40h
objective: fastest
checkpoint: {to: runs/llama-8b, every: 10m, keep: 3}
"""


def error_of(*settings, text=TEXT) -> str:
    """Read a job that is wrong and give the error's text."""
    with pytest.raises(BadInputError) as caught:
        read_job(text, "job.yaml", settings)
    return str(caught.value)


class TestJob:
    def test_the_documented_file_is_read(self):
        """The example of the documents becomes a Job with seconds and counts."""
        job = read_job(TEXT, "job.yaml")
        assert (job.name, job.queue, job.model, job.time_limit_s) == ("llama-8b", "research", "llama-3-8b", 144000.0)
        assert job.data == DataSpec(files=("corpus/*.parquet",), tokenizer="tokenizer.json")
        assert (job.train.steps, job.train.learning_rate, job.train.precision) == (20000, 3e-4, "bf16")
        assert job.chips == ChipsSpec(allow=("h800-sxm", "ascend-910b3"), minimum=256, maximum=1280)
        assert job.checkpoint == CheckpointSpec(to="runs/llama-8b", every_s=600.0, keep=3)

    def test_little_is_required(self):
        """Name, model, data and three numbers of training are enough."""
        text = "name: a\nmodel: m\ndata: {files: x.txt}\ntrain: {sequence_length: 8, global_batch_size: 2, steps: 1}\n"
        job = read_job(text, "job.yaml")
        assert (job.objective, job.checkpoint, job.chips, job.priority) == (Objective(), None, ChipsSpec(), 0)
        assert (job.data.tokenizer, job.train.microbatch_size, job.train.recompute) == ("bytes", None, None)

    @pytest.mark.parametrize(
        ("setting", "get", "value"),
        [
            ("train.steps=20k", lambda job: job.train.steps, 20000),
            ("data.files=[a.txt, b/*.jsonl]", lambda job: job.data.files, ("a.txt", "b/*.jsonl")),
            ("data.tokenizer=train:4_096", lambda job: job.data.tokenizer, "train:4096"),
            ("data.tokenizer=train:257", lambda job: job.data.tokenizer, "train:257"),
            ("data.tokenizer=./gpt2", lambda job: job.data.tokenizer, "./gpt2"),
            ("objective=cheapest", lambda job: job.objective, Objective(goal="cheapest")),
            ("objective={deadline: 2026-12-24}", lambda job: job.objective.deadline, "2026-12-24"),
            ("objective={power: 500 kW}", lambda job: job.objective, Objective(power_kw=500.0)),
            (
                "objective={goal: cheapest, power: 1.2MW, deadline: 2026-12-24}",
                lambda job: job.objective,
                Objective(goal="deadline", deadline="2026-12-24", power_kw=1200.0),
            ),
            ("checkpoint.every=50 steps", lambda job: (job.checkpoint.every_s, job.checkpoint.every_steps), (None, 50)),
            ("checkpoint.resume=no", lambda job: job.checkpoint.resume, False),
            ("checkpoint=null", lambda job: job.checkpoint, None),
            ("chips.allow=cpu", lambda job: job.chips.allow, ("cpu",)),
            ("train.betas=[0.9, 0.99]", lambda job: job.train.betas, (0.9, 0.99)),
            ("train.recompute=full", lambda job: job.train.recompute, "full"),
        ],
    )
    def test_settings_on_top(self, setting, get, value):
        """Each form a key may take is read from a `--set` flag too."""
        assert get(read_job(TEXT, "job.yaml", [setting])) == value

    def test_other_kinds_are_refused_by_name(self):
        """`kind: run` and `kind: serve` are known but not run, whatever else is in the file."""
        text = error_of(text="kind: serve\ncommand: vllm serve\n")
        assert text == "job.yaml:1:1  kind: this version has train and run; serve is planned and refused until then"
        assert (
            error_of("kind=trian") == "--set kind=trian  kind: must be one of train, got 'trian'; did you mean train?"
        )

    def test_the_documented_error(self):
        """A mistyped key answers as the documents show."""
        text = TEXT.replace("global_batch_size", "global_batch")
        assert "job.yaml:6:33  train.global_batch: unknown key; did you mean global_batch_size?" in error_of(text=text)

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("train.global_batch_size=0", "train.global_batch_size: must be 1 or more, got 0"),
            (
                "train.steps=-5",
                "train.steps: must not be negative, got -5; write a whole number such as 1000, 20k or 1.5M",
            ),
            ("train.precision=fp8", "train.precision: must be one of fp32, bf16, got 'fp8'"),
            ("train.recompute=ful", "train.recompute: must be one of none, full, got 'ful'; did you mean full?"),
            ("train.learning_rate=0", "train.learning_rate: must be more than 0.0, got 0"),
            ("train.betas=[0.9]", "train.betas[1]: missing; the list is too short"),
            ("train.betas=[0.9, 1]", "train.betas[1]: must be less than 1.0, got 1"),
            ("train.warmup_steps=30k", "train.warmup_steps: must not exceed steps 20,000, got 30,000"),
            (
                "train.minimum_learning_rate=1",
                "train.minimum_learning_rate: must not exceed learning_rate 0.0003, got 1",
            ),
            ("train.microbatch_size=7", "train.microbatch_size: must divide global_batch_size 1,024, got 7"),
            ("chips.max=10", "chips.max: must be at least min 256, got 10"),
            ("time_limit=40 parsecs", "time_limit: unknown unit of time 'parsecs' in '40 parsecs'"),
            ("checkpoint.every=50", "checkpoint.every: got 50 without a unit; write 10m or 50 steps"),
            ("checkpoint.every=0 steps", "checkpoint.every: must be more than 0, got '0 steps'"),
            (
                "data.tokenizer=byte",
                "data.tokenizer: got 'byte'; did you mean bytes? write bytes, train:4096, or the path",
            ),
            ("data.tokenizer=train:9", "data.tokenizer: got 'train:9'; write a number from 257 (all bytes"),
            ("data.tokenizer=train:2M", "data.tokenizer: got 'train:2M'; write a number from 257 (all bytes"),
            ("data.tokenizer=gpt2", "data.tokenizer: got 'gpt2'; write bytes, train:4096, or the path of a tokenizer"),
            ("train.steps=100M", "train.steps: must be 99,999,999 or less, got"),
            ("data.files=[]", "data.files: must have at least 1 entries, got the list []"),
            ("data.files=", "data.files: has no value; must be a list, or leave the key out"),
            (
                "objective=fast",
                "objective: got 'fast'; did you mean fastest? write fastest, cheapest, {deadline: 2026-12-24}",
            ),
            ("objective=tokens_per_dollar", "objective: got 'tokens_per_dollar'; did you mean cheapest?"),
            ("objective={deadline: soon}", "objective.deadline: got 'soon'; write a date such as 2026-12-24"),
            ("objective={dedline: soon}", "objective.dedline: unknown key; did you mean deadline?"),
            ("objective={power_cap: 5kW}", "objective.power_cap: unknown key; did you mean power?"),
            ("objective={power: 500}", "objective.power: got 500; write a power with its unit, such as 500kW"),
            ("objective={power: 0 kW}", "objective.power: must be more than 0, got '0 kW'"),
            ("objective={goal: fast}", "objective.goal: must be one of fastest, cheapest, got 'fast'; did you mean"),
            ("objective={goal: fastest, deadline: 2026-12-24}", "objective.goal: fastest leaves a deadline nothing"),
            ("name=a/b", "name: got 'a/b'; write 1 to 63 letters, digits, dots, dashes or underscores"),
            ("chips.minimum=3", "chips.minimum: unknown key; did you mean min?"),
        ],
    )
    def test_each_mistake_says_what_is_allowed(self, setting, message):
        """A wrong value is answered with the flag, the key, the value and what is allowed."""
        assert error_of(setting).startswith(f"--set {setting}  {message}")

    def test_contradictions_come_together(self):
        """Keys that fit alone but not together are all reported, with their places."""
        lines = error_of("train.microbatch_size=7", "chips.min=2000").splitlines()
        assert lines[1] == "job.yaml:7:53  chips.max: must be at least min 2,000, got 1,280"
        assert len(lines) == 2

    @given(st.sampled_from(sorted(JobFile.model_fields)), st.text(max_size=8))
    def test_any_value_is_read_or_refused(self, key, value):
        """Whatever a key is set to, the answer is a Job or a BadInputError."""
        with contextlib.suppress(BadInputError):
            assert read_job(TEXT, "job.yaml", [f"{key}={value}"]).kind == "train"
