"""Lines that tell of a run before its first step: its data, and that ranks start.

Text only; must not know a screen.
"""

from argosy.cli.pace import LABEL
from argosy.cli.words import counted
from argosy.train.data.prepare import TokenSetInfo


def start_text(ranks: int) -> str:
    """Say that ranks start."""
    return f"{'start':{LABEL}}{counted(ranks, 'rank')}, which load torch"


def data_text(info: TokenSetInfo, source: str = "") -> str:
    """Write what a token set is: source, size, tokenizer."""
    meta = info.meta
    tokenizer = f"tokenizer {meta.tokenizer}"
    if meta.tokenizer.startswith("train:"):
        tokenizer = f"tokenizer of {meta.vocab_size:,} trained"
        tokenizer += " before" if info.reused else f" in {meta.tokenizer_s:.1f} s"
    text = (
        f"{source}{counted(meta.files, 'file')}, {meta.text_bytes / 1e6:,.1f} MB, {meta.tokens:,} tokens, {tokenizer}"
    )
    return f"{'data':{LABEL}}{text}{' (from the cache)' if info.reused else ''}"
