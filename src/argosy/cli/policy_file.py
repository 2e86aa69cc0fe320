"""Reading a queues.yaml as the API takes it; must not know the API's client, which a server does not load."""

from pathlib import Path

from argosy.cli.checking import checked
from argosy.cli.files import read_text
from argosy.server.models import PolicyText


def policy_text(path: Path) -> PolicyText:
    """Read the text of a queues.yaml. Raises BadInputError."""
    with checked():
        return PolicyText(document=read_text(path, "queues file", "docs/queues.md shows one"), source=str(path))
