"""Texts that several findings share. Must not know what they are about."""

from collections.abc import Iterable


def rank_words(ranks: Iterable[int], *, runs_max: int = 12) -> str:
    """Write ranks as a person would: `rank 5`, `ranks 0-3, 7`; past `runs_max` runs only how many more there are."""
    ordered = sorted(set(ranks))
    runs: list[tuple[int, int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    shown = runs[:runs_max]
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in shown)
    left = len(ordered) - sum(last - first + 1 for first, last in shown)
    more = f" and {left:,} more" if left else ""
    return f"{'rank' if len(ordered) == 1 else 'ranks'} {text}{more}"
