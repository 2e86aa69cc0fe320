"""A first day with the service, word for word as docs/service.md tells it: real server, agents, ranks and commands."""

import re
import shlex
from pathlib import Path

import pytest

from argosy.client import Client
from support.realservice import RealService, real_service, until

TEXT = "\n".join(f"the quick brown fox {number} jumps over the lazy dog" for number in range(400))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TORCH = re.compile(r"N( (\[WN|frame #|Exception raised from|<omitting).*)?")
"""What torch may say when one process of a gang is slower to leave than the one that hosts their store."""
NUMBER = re.compile(r"[-~]?\d[\d,.:]*(?:e[-+]\d+)?(?: s)?(?!\w)")


def files_in(text: str) -> dict[str, str]:
    """Find the files that a page shows: blocks that begin with a comment of their name."""
    found = (re.match(r"# (\S+\.(?:yaml|py))\n", body) for _, body in FENCE.findall(text))
    bodies = [body for _, body in FENCE.findall(text)]
    return {match[1]: body for match, body in zip(found, bodies, strict=True) if match}


def commands_in(text: str) -> list[tuple[str, str]]:
    """Find the commands that a page shows, each with what it prints."""
    sessions = "".join(body for kind, body in FENCE.findall(text) if kind == "console")
    parts = re.split(r"^\$ ", sessions, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def plain(text: str) -> list[str]:
    """Leave out what differs from run to run: figures, names of users and folders, blanks, words of waiting."""
    text = re.sub(r"files \S+", "files F", re.sub(r"\b(me|root)\b", "U", text))
    text = re.sub(r"/\S+/runs/", "F/runs/", text)
    rows = (" ".join(NUMBER.sub("N", line).split()) for line in text.splitlines())
    return [row for row in rows if row and not row.endswith(" ...") and not TORCH.fullmatch(row)]


def waits(client: Client) -> dict[str, object]:
    """Say what has to be before a command of the page is given."""

    def state(name: str, *states: str) -> object:
        return lambda: client.job(name).state in states

    return {
        "argosy nodes": lambda: [node.observed for node in client.nodes()] == ["up"] * 4,
        "argosy logs first --rank 1 --tail 3": state("first", "ended"),
        "argosy queues": state("second", "preparing", "running"),
        "argosy jobs --all": state("second", "ended"),
    }


@pytest.mark.slow
class TestDay:
    @pytest.mark.timeout(1500)
    def test_the_page_tells_what_happens(self, tmp_path: Path, repository: Path) -> None:
        """Two training jobs and torchrun in two queues: they queue, borrow, run and end as the page prints it."""
        page = (repository / "docs" / "service.md").read_text()
        with real_service(tmp_path) as service:
            write_files(service, page)
            client = None
            for command, printed in commands_in(page):
                if client is not None and command in waits(client):
                    until(client, waits(client)[command])
                told = service.argosy(*with_port(command))
                assert (command, plain(told)) == (command, plain(printed))
                client = client or Client.here(folder=service.state)


def write_files(service: RealService, page: str) -> None:
    """Write the files that the page shows, and the text to train on."""
    (service.folder / "text.txt").write_text(TEXT)
    for name, body in files_in(page).items():
        path = service.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(body)


def with_port(command: str) -> list[str]:
    """Give a command's words; the service takes any free port, since tests may run side by side."""
    words = shlex.split(command)[1:]
    return [*words, "--listen", "0"] if words[0] == "up" else words
