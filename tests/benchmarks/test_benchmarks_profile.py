"""The benchmark of profiles writes a job that Argosy reads and trains."""

from argosy.cli.jobs import load_job, load_model
from argosy.model.shape import trainer_refusal


class TestInputs:
    def test_the_job_can_be_trained(self, benchmark, tmp_path, monkeypatch):
        """Its job, model and text are there, and the trainer runs the model."""
        benchmark("profile_accuracy").write_inputs(tmp_path, None)
        monkeypatch.chdir(tmp_path)
        job = load_job(tmp_path / "job.yaml", [])
        shape, _ = load_model(job, "job.yaml")
        assert trainer_refusal(shape) is None
        assert (tmp_path / job.data.files[0]).stat().st_size > 100_000
