"""Profile files that a command is given with --profile. It reads; what is in them is the room `plan`'s business."""

from collections.abc import Sequence
from pathlib import Path

from argosy.cli.files import read_text
from argosy.fleet.catalogue import Catalogue
from argosy.plan.costs.measured import Measured, read_measured

BYTES_MAX = 64 << 20


def read_profiles(paths: Sequence[Path], catalogue: Catalogue) -> Measured | None:
    """Read profile files into one; None without any. Raises BadInputError with file and entry of a mistake."""
    if not paths:
        return None
    texts = [(read_text(path, "profile", "`argosy profile` writes one", BYTES_MAX), str(path)) for path in paths]
    return read_measured(texts, catalogue.names())
