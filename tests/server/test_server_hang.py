"""Commands that hang or bring code along, from their submission to their end: real server, agents and ranks."""

from pathlib import Path

import pytest

from argosy.client import Client
from argosy.server.models import Submission
from support.realservice import RealService, real_service, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HANGS_ONCE = """kind: run
name: {name}
command: "echo begun; if [ -e {mark} ]; then exit 0; fi; touch {mark}; {rest}"
hang: {{{hang}}}
"""
SILENT = ("silent", "sleep 1000", "no_output_for: 8s", "no rank wrote anything for")
STEPLESS = (
    "stepless",
    "echo step 1; while :; do echo waiting; sleep 0.2; done",
    "step_pattern: 'step [0-9]+', no_step_for: 8s",
    "no line matched hang.step_pattern for",
)


def hand_in(service: RealService, client: Client, name: str, rest: str, hang: str) -> str:
    """Hand in a command that hangs the first time; gives the job's id."""
    document = HANGS_ONCE.format(name=name, rest=rest, hang=hang, mark=service.folder / name)
    return client.submit(Submission(document=document)).id


class TestHang:
    def test_it_is_found_and_mended_also_by_the_next_server(self, tmp_path: Path) -> None:
        """Neither output nor steps: the gang starts anew, though the server was killed while it ran."""
        with real_service(tmp_path) as service:
            client = service.serve()
            jobs = {hand_in(service, client, *words[:3]): words[3] for words in (SILENT, STEPLESS)}
            until(client, lambda: all(client.job(job).state == "running" for job in jobs))
            service.kill()
            client = service.serve()
            began_us = client.status().started_us
            until(client, lambda: all(client.job(job).state == "ended" for job in jobs))
            for job, words in jobs.items():
                found = client.job(job)
                assert (found.reason, found.retries) == ("done", {"infrastructure": 1})
                (told,) = [each for each in client.explain(job).story if words in str(each.did)]
                assert told.at_us > began_us


class TestUpload:
    def test_a_command_runs_in_a_folder_of_what_it_uploads(self, tmp_path: Path) -> None:
        """Every node unpacks the code, and `working_directory` is a folder within."""
        with real_service(tmp_path) as service:
            service.serve()
            (tmp_path / "code" / "src").mkdir(parents=True)
            (tmp_path / "code" / "data.txt").write_text("brought along\n")
            (tmp_path / "code" / "src" / "run.sh").write_text("basename $PWD; cat ../data.txt\n")
            (tmp_path / "up.yaml").write_text(
                "kind: run\nname: up\ncommand: sh run.sh\nupload: code\nworking_directory: src\nnodes: 2\n"
            )
            assert "ended: done" in service.argosy("submit", "up.yaml", "--wait")
            for rank in ("0", "1"):
                said = service.argosy("logs", "up", "--rank", rank)
                assert [line.split("  ")[-1] for line in said.splitlines()] == ["src", "brought along"]
