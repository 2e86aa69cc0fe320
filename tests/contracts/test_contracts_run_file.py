"""`job.yaml` of kind run, and jobs of every kind."""

import pytest

from argosy.contracts import codec
from argosy.contracts.errors import BadInputError
from argosy.contracts.job import HangSpec, Job, LogPattern, RunJob
from argosy.contracts.run_file import decode_job, read_any_job

LEAST = "kind: run\ncommand: torchrun train.py\n"
TRAIN = "name: t\nmodel: tiny\ndata: {files: a.txt}\ntrain: {sequence_length: 8, global_batch_size: 4, steps: 2}\n"


def read(more="", text=LEAST):
    """Read a job."""
    return read_any_job(text + more, "job.yaml")


def error_of(more="", text=LEAST):
    """Give the text of the error that reading raises."""
    with pytest.raises(BadInputError) as caught:
        read(more, text)
    return str(caught.value)


class TestReading:
    def test_the_least_job(self):
        """A command alone is a job: one launcher on one whole node of any kind."""
        job = read()
        assert (job.name, job.queue, job.run.command) == ("run", "default", ("torchrun train.py",))
        assert (job.run.nodes, job.run.processes_per_node, job.chips.allow) == (1, None, ())

    def test_every_key(self):
        """All keys are read, times in seconds."""
        job = read(
            "name: big\nnodes: 16\nprocesses_per_node: chips\nchips: {allow: h800-sxm}\nqueue: vision\npriority: 3\n"
            "environment: {NCCL_DEBUG: WARN, OMP_NUM_THREADS: 4}\nupload: .\nworking_directory: src\nrestarts: 2\n"
            "hang: {no_output_for: 10m, step_pattern: 'step [0-9]+', no_step_for: 5m}\nstop_grace: 1m\n"
            "log_patterns: [{match: NCCL error, means: infrastructure, stop: yes}]\ntime_limit: 12h\n"
        )
        run = job.run
        assert (job.chips.allow, job.time_limit_s, job.priority) == (("h800-sxm",), 43_200.0, 3)
        assert (run.nodes, run.processes_per_node, run.restarts, run.stop_grace_s) == (16, 0, 2, 60.0)
        assert run.environment == {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "4"}
        assert run.hang == HangSpec(no_output_for_s=600.0, step_pattern="step [0-9]+", no_step_for_s=300.0)
        assert run.log_patterns == (LogPattern(match="NCCL error", means="infrastructure", stop=True),)

    def test_a_list_is_a_program_and_its_arguments(self):
        """A list is run without a shell."""
        assert read(text="kind: run\ncommand: [python, -c, 'print(1)']\n").run.command == ("python", "-c", "print(1)")

    def test_settings_count(self):
        """`--set` replaces a value."""
        assert read_any_job(LEAST, "job.yaml", ["nodes=4"]).run.nodes == 4

    def test_training_jobs_are_read_too(self):
        """A job without kind is a training job, as before."""
        assert isinstance(read(text=TRAIN), Job)


class TestRefusals:
    @pytest.mark.parametrize(
        ("more", "text"),
        [
            ("nnodes: 2", "job.yaml:3:1  nnodes: unknown key; did you mean nodes?"),
            ("env: {A: b}", "job.yaml:3:1  env: unknown key; did you mean environment?"),
            ("environment: {ARGOSY_JOB: x}", "names that begin with ARGOSY_ are set by Argosy itself"),
            ("environment: {A-B: x}", "got the name 'A-B'; write letters, digits and underscores"),
            ("environment: {DEBUG: true}", 'DEBUG is true; write a text or a number, such as DEBUG: "1"'),
            ("processes_per_node: 0", "got 0; write launcher, chips or a number from 1 to 4,096"),
            ("log_patterns: [{match: '('}]", "no regular expression: missing ), unterminated subpattern"),
            ("hang: {no_step_for: 5m}", "hang.no_step_for: needs step_pattern"),
            ("upload: .\nworking_directory: /shared", "is a folder within what is uploaded"),
            ("upload: .\nworking_directory: ../up", "is a folder within what is uploaded"),
            ("nodes: 0", "nodes: must be 1 or more, got 0"),
            ("stop_grace: 5 parsecs", "stop_grace: unknown unit of time 'parsecs'"),
        ],
    )
    def test_each_is_told_with_what_is_allowed(self, more, text):
        """A wrong value is refused with its place, what it is and what may stand there."""
        assert text in error_of(more)

    @pytest.mark.parametrize(("kind", "got"), [("Run", "'Run'"), ("[run]", "run"), ("5", "5")])
    def test_another_kind_is_told_alone(self, kind, got):
        """A kind that isn't there is named, without what a training job would lack."""
        told = error_of(text=f"kind: {kind}\ncommand: x\n")
        assert told.startswith("job.yaml:1:1  kind: must be train or run, got ")
        assert got in told

    def test_all_problems_come_at_once(self):
        """Two mistakes are two lines."""
        assert len(error_of("nodes: x\nrestarts: -1").splitlines()) == 2

    def test_an_empty_command_is_refused(self):
        """A command must be something to run."""
        assert "write what is to be run" in error_of(text="kind: run\ncommand: ' '\n")


class TestStored:
    @pytest.mark.parametrize("text", [LEAST, TRAIN])
    def test_jobs_of_every_kind_survive(self, text):
        """What is written down of a job is read as its own kind."""
        job = read(text=text)
        assert decode_job(codec.encode(job)) == job
        assert type(decode_job(codec.encode(job))) is (RunJob if text is LEAST else Job)

    @pytest.mark.parametrize("data", [b"", b"[]", b'{"kind": "run"}', b'{"kind": 3}', b"\xff"])
    def test_other_bytes_are_refused(self, data):
        """What is no job is refused."""
        with pytest.raises(BadInputError, match="not a"):
            decode_job(data)
