"""What diagnosis knows: read from files, checked, and told with places where it is wrong."""

import textwrap

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.incident import CULPRIT_KINDS, REMEDIES
from argosy.health.book_files import read_book
from argosy.health.book_page import page
from argosy.health.packaged import load_book, own_texts

OWN = """
layer: storage
classes:
  storage.vault_sealed:
    {meaning: The vault is sealed., culprit: configuration, remedy: fix_config, advice: Unseal it.}
signatures:
  - name: site.vault_sealed
    fault_class: storage.vault_sealed
    literals: [vault is sealed]
    pattern: 'vault is sealed on (?P<host>\\S+)'
    strength: 3
    example: 'ERROR vault is sealed on node-7'
"""


def own(old: str = "", new: str = "") -> dict[str, str]:
    """Give a user's file, with one text replaced."""
    return {"mine.yaml": OWN.replace(old, new) if old else OWN}


class TestPackaged:
    @pytest.mark.slow
    def test_our_files_are_what_a_user_may_write(self, book):
        """Read as a user's files, with every place checked, ours give the same book."""
        texts = own_texts()
        base = {name: texts[name] for name in ("classes.yaml",)}
        rest = {name: text for name, text in texts.items() if name not in base}
        again = read_book(base, rest)
        assert {each.name: each for each in again.signatures} == {each.name: each for each in book.signatures}
        assert again.tables == book.tables

    def test_every_signature_has_an_example_and_a_source(self, book):
        """What is known comes with a line that shows it and with where it was read."""
        assert [each.name for each in book.signatures if not book.examples.get(each.name) or not each.sources] == []

    def test_every_class_has_a_family(self, book):
        """The part before the dot is a family of the published list."""
        assert {name.partition(".")[0] for name in book.classes} == {*book.families, "unknown"}

    def test_every_class_speaks_the_contract_words(self, book):
        """Culprits and remedies are those of an Incident."""
        assert {each.culprit for each in book.classes.values()} <= set(CULPRIT_KINDS)
        assert {each.remedy for each in book.classes.values()} <= set(REMEDIES)

    def test_every_class_is_used(self, book):
        """No class stands in the list that nothing can name, other than those that traces find."""
        named = {each.fault_class for each in book.signatures} | {rule.fault_class for rule in book.rules}
        named |= {code.fault_class for table in book.tables.values() for code in table.codes.values()}
        left = {"unknown", "process.link_stall", "process.slow_rank", "process.died", "process.data_stuck"}
        left |= {"process.save_stuck"}
        assert set(book.classes) - named - left == set()

    def test_rules_name_signatures_that_exist(self, book):
        """A rule on a signature that nobody writes could never fire."""
        names = {each.name for each in book.signatures}
        used = {name for rule in book.rules for name in (*rule.all, *rule.any, *rule.none)}
        assert {name for name in used if not name.endswith("*")} - names == set()

    def test_the_page_in_the_docs_is_true(self, book, repository):
        """docs/diagnose-signatures.md is what the data says."""
        text = (repository / "docs" / "diagnose-signatures.md").read_text(encoding="utf-8")
        assert text == page(book), "run `python benchmarks/signatures_page.py`"


class TestUserPatterns:
    def test_they_are_tried_before_ours(self):
        """A user's signature stands first, with its class's remedy and advice."""
        first = load_book(own()).signatures[0]
        assert (first.name, first.remedy, first.layer) == ("site.vault_sealed", "fix_config", "storage")

    def test_a_class_of_theirs_may_replace_ours(self):
        """A user's words on a class of ours win."""
        text = textwrap.dedent("""
            classes:
              gpu.oom: {meaning: Too big., culprit: rank, remedy: fix_config, advice: Ask the platform team.}
        """)
        assert load_book({"mine.yaml": text}).classes["gpu.oom"].advice == "Ask the platform team."

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            ("fault_class: storage.vault_sealed", "fault_class: storage.vault_seald", "did you mean storage.vault"),
            ("(?P<host>", "(?P<host", "not a regular expression"),
            ("vault is sealed on node-7", "vault is open", "does not match its example"),
            ("[vault is sealed]", "[vault open]", "would never be tried"),
            ("strength: 3", "strength: 7", "mine.yaml:11"),
            ("strength: 3", "strenght: 3", "did you mean strength"),
            ("storage.vault_sealed:", "vault.sealed:", "no family 'vault'"),
            ("name: site.vault_sealed", "name: nvidia.xid", "the name is taken"),
            ("    fault_class: storage.vault_sealed\n", "", "a cause needs fault_class"),
            ("strength: 3", "codes: nvidia.xid", "codes need a named group"),
            ("strength: 3", "codes: nvidia.xyd", "did you mean nvidia.xid?"),
        ],
    )
    def test_a_mistake_is_told_with_its_place(self, old, new, told):
        """The error names the file and line, what is wrong and the nearest name."""
        with pytest.raises(BadInputError) as caught:
            load_book(own(old, new))
        assert told in str(caught.value)
        assert "mine.yaml" in str(caught.value) or "the name is taken" in told

    @pytest.mark.parametrize("text", ["", "a: [", "- x", "signatures: 3", "signatures: [1]", "\x00"])
    def test_what_is_no_such_file_is_an_error(self, text):
        """Whatever else stands in the file, the answer is an error with the file's name."""
        with pytest.raises(BadInputError, match=r"mine\.yaml"):
            load_book({"mine.yaml": text})
