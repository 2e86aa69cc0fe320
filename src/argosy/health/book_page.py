"""What diagnosis knows, written as a page for people: docs/diagnose-signatures.md is this page.

Pure text. Must not know how signatures are searched.
"""

from collections.abc import Iterator, Sequence

from argosy.contracts.incident import Party
from argosy.health.book import Book, Code, CodeTable
from argosy.health.parties import advice_for
from argosy.health.signature import Signature

HEAD = """# What `argosy diagnose` knows

Generated from `src/argosy/health/data/*.yaml` by `python benchmarks/signatures_page.py`; a test keeps it true. Meanings
are in our own words; where a fact was read stands beside it.

**Class** is what an Incident names; its **family** is the part before the dot. A **cause** says what broke, a
**symptom** that something else did, a **context** tells where or narrows a cause down, and what is **harmless** only
looks like a fault. **Strength** 3 proves, 2 points, 1 hints: a hint gives an Incident of low confidence, and only where
nothing better is seen.
"""
OWN = """## Patterns of your own

`argosy diagnose --patterns FILE` adds signatures, and classes and rules if you like, in the form of the files named
above. They are tried before ours.

```yaml
layer: storage          # kernel, driver, fabric, storage, runtime, framework, user, launcher or scheduler
classes:
  storage.vault_sealed:
    meaning: The vault is sealed.
    culprit: configuration           # rank, chip, host, link, code, configuration or unknown
    remedy: fix_config               # restart_in_place, cordon_replace, fix_user_code, fix_config or retry
    advice: Unseal the vault, then start the job again.
signatures:
  - name: site.vault_sealed
    fault_class: storage.vault_sealed
    literals: [vault is sealed]      # every line that matches holds one of these; what search is quick by
    pattern: 'vault is sealed on (?P<host>\\S+)'
    strength: 3
    example: 'ERROR vault is sealed on node-7'
```

Named groups that mean something: `rank`, `host`, `chip`, `link`, `port`, `peer`, and `code`, which is looked up in the
table that `codes:` names. A mistake is told with its line; an example that the pattern does not match is one.
"""


def page(book: Book) -> str:
    """Write the whole page in Markdown."""
    parts = [HEAD, "## Families\n", *_families(book), "\n## Classes\n", *_classes(book), "\n## Signatures\n"]
    parts += [*_signatures(book.signatures), "\n## Rules\n", *_rules(book)]
    for table in sorted(book.tables.values(), key=lambda each: each.name):
        parts += [f"\n## Codes: {table.what}\n", f"Source: {table.source}.\n", *_codes(table)]
    return "\n".join(parts) + "\n\n" + OWN


def _families(book: Book) -> Iterator[str]:
    yield from _row("family", "meaning")
    yield from (f"| {name} | {_cell(meaning)} |" for name, meaning in book.families.items())


def _classes(book: Book) -> Iterator[str]:
    yield from _row("class", "meaning", "culprit", "remedy", "what to do")
    for each in sorted(book.classes.values(), key=lambda one: one.name):
        cells = (each.name, _cell(each.meaning), each.culprit, each.remedy, _cell(advice_for(each.advice, Party())))
        yield f"| {' | '.join(cells)} |"


def _signatures(signatures: Sequence[Signature]) -> Iterator[str]:
    yield from _row("signature", "printed by", "says", "class", "strength", "meaning", "source")
    for each in sorted(signatures, key=lambda one: one.name):
        cells = (each.name, each.layer, each.role, each.fault_class, str(each.strength), _cell(each.meaning))
        yield f"| {' | '.join(cells)} | {_cell(', '.join(each.sources))} |"


def _rules(book: Book) -> Iterator[str]:
    yield from _row("rule", "if all of", "and any of", "then", "meaning")
    for rule in book.rules:
        names = (", ".join(rule.all), ", ".join(rule.any))
        yield f"| {rule.name} | {names[0]} | {names[1]} | {rule.fault_class} | {_cell(rule.meaning)} |"


def _codes(table: CodeTable) -> Iterator[str]:
    """Write a table, codes that mean the same in one row."""
    yield from _row("codes", "meaning", "class", "action", "remedy")
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for code in table.codes.values():
        groups.setdefault(_alike(code), []).append(code.code)
    for (meaning, fault_class, action, remedy), codes in groups.items():
        yield f"| {', '.join(codes)} | {_cell(meaning)} | {fault_class} | {action} | {remedy} |"


def _alike(code: Code) -> tuple[str, str, str, str]:
    return code.meaning, code.fault_class, code.action, code.remedy


def _row(*names: str) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield "|" + " --- |" * len(names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
