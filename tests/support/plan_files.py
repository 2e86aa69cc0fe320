"""A job and a fleet as files for `argosy plan`, for tests: two sites, each with its kind of chip."""

from pathlib import Path

TWINS = """
fleet: twins
sites: {north: {}, south: {}}
long_links: [{between: [north, south], km: 50, gbps: 100}]
nodes:
  - {site: north, chip: h800-sxm, chips_per_node: 2, count: 1, emulate: {tflops: 0.02, memory_gb: 1}}
  - {site: south, chip: ascend-910b3, chips_per_node: 2, count: 1, emulate: {tflops: 0.01, memory_gb: 1}}
"""
JOB = """
name: job
model: tiny
data: {files: x.txt}
train: {sequence_length: 64, global_batch_size: 12, steps: 5}
"""


def write_files(folder: Path, job: str = JOB, fleet: str = TWINS) -> list[str]:
    """Write a job and a fleet; answers the arguments that plan them."""
    (folder / "job.yaml").write_text(job)
    (folder / "fleet.yaml").write_text(fleet)
    return ["plan", str(folder / "job.yaml"), "--fleet", str(folder / "fleet.yaml")]
