"""Where prepared data is kept, for all jobs of a user on a machine."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Name the folder: $ARGOSY_CACHE, else argosy in $XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("ARGOSY_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(named) if named else Path(base) / "argosy"
