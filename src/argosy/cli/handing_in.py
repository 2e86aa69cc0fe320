"""Making a submission of a job file: checked here first, its model's text and its code taken along.

Must not know what becomes of it.
"""

import gzip
import tarfile
import tempfile
from pathlib import Path

from argosy.cli.checking import checked
from argosy.cli.files import read_text
from argosy.client import Client
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.job import RunJob
from argosy.contracts.run_file import read_any_job
from argosy.model.named import config_text, named_configs
from argosy.server.models import JobView, Submission

COMPRESSION = 6


def submission_of(path: Path, settings: list[str]) -> Submission:
    """Read a job file. Raises BadInputError with the place of every mistake."""
    text = read_text(path, "job file", "docs/job.md shows one")
    job = read_any_job(text, str(path), settings)
    config = ""
    if not isinstance(job, RunJob) and job.model not in named_configs():
        config = config_text(job.model)[0]
    with checked():
        return Submission(
            document=text, source=str(path), settings=settings, model_config_text=config, folder=str(Path.cwd())
        )


def hand_in(client: Client, submission: Submission, key: str) -> JobView:
    """Hand a job in, after the code that it uploads."""
    job = read_any_job(submission.document, submission.source, submission.settings)
    if isinstance(job, RunJob) and job.run.upload is not None:
        submission = submission.model_copy(update={"bundle": upload(client, Path(job.run.upload))})
    return client.submit(submission, key)


def upload(client: Client, folder: Path) -> str:
    """Pack a folder and hand it in; gives its id. Raises BadInputError, InfrastructureError."""
    if not folder.is_dir():
        raise BadInputError(f"upload: {folder} is no folder here")
    with tempfile.TemporaryDirectory(prefix="argosy-") as place:
        packed = Path(place) / "code.tar.gz"
        try:
            # Without the time of packing, which gzip would write down.
            with (
                packed.open("wb") as file,
                gzip.GzipFile("", "wb", COMPRESSION, file, mtime=0) as thin,
                tarfile.open(fileobj=thin, mode="w") as archive,
            ):
                archive.add(folder, arcname=".", filter=_plain)
        except OSError as error:
            raise InfrastructureError(f"upload: {folder} can't be packed: {error.strerror or error}") from error
        return client.put_bundle(packed).id


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what is no file, folder or link, version control, and who owned it, so like code has the same id."""
    kept = member.isfile() or member.isdir() or member.issym()
    if not kept or Path(member.name).name in (".git", "__pycache__"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
