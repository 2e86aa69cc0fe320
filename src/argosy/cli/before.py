"""What can be told before planning: folders that are files, ports in use, weights that are absent, other machines.

Cheap checks only; each refusal names the option or key. Starts nothing and writes nothing.
"""

import socket
from pathlib import Path

from argosy.cli.data import check_files
from argosy.cli.files import check_file, check_folder
from argosy.cli.inputs import Inputs
from argosy.cli.jobs import told_of
from argosy.cli.used import ELSEWHERE
from argosy.contracts.errors import BadInputError, InfrastructureError

HOST = "127.0.0.1"


def check_before(inputs: Inputs, directory: Path, port: int, trace: Path | None = None) -> None:
    """See that a run could start and be written, before time is spent on its plan. Raises ArgosyError."""
    if trace is not None:
        check_file(trace, "--trace")
    check_folder(directory, "--directory")
    job = inputs.job
    with told_of(inputs.job_source):
        if job.checkpoint is not None:
            check_folder(Path(job.checkpoint.to), "checkpoint.to")
        if job.export_to is not None:
            check_folder(Path(job.export_to), "export_to")
        if job.initial_weights is not None:
            check_weights(Path(job.initial_weights))
    check_files(inputs)
    check_machines(inputs)
    if port:
        check_port(port)


def check_weights(folder: Path) -> None:
    """See that a folder holds weights. Raises BadInputError."""
    if not folder.is_dir():
        raise BadInputError(f"initial_weights: there is no folder {folder}; give one that holds model.safetensors")
    if not any(folder.glob("*.safetensors")):
        raise BadInputError(f"initial_weights: the folder {folder} holds no .safetensors file; give one that does")


def check_machines(inputs: Inputs) -> None:
    """Refuse a fleet of several machines whose chips are all real ones. Raises BadInputError."""
    nodes = sum(chip_class.nodes for chip_class in inputs.classes)
    if nodes > 1 and not any(chip_class.emulated for chip_class in inputs.classes):
        raise BadInputError(f"{inputs.fleet_source}: the fleet has {nodes:,} machines; {ELSEWHERE}")


def check_port(port: int) -> None:
    """See that nobody listens on a port of this machine. Raises InfrastructureError."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            text = f"can't listen on {HOST}:{port}: {error.strerror}"
            raise InfrastructureError(f"{text}; another --port, or none for any free one, helps") from error
