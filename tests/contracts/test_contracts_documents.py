"""Reading files with the place of every key, and errors that name it."""

import contextlib
from typing import ClassVar

import pydantic
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.documents import (
    TEXT_LENGTH_MAX,
    Section,
    decode_text,
    override,
    problems_error,
    read_document,
    validate,
)
from argosy.contracts.errors import BadInputError
from argosy.contracts.explain import dotted_path, nearest
from argosy.contracts.units import DurationS, NicsText, Switch


class Inner(Section):
    """A section of the sample file."""

    OTHER_NAMES: ClassVar = {"lr": "learning_rate"}

    steps: int = pydantic.Field(default=1, ge=1)
    learning_rate: float = 0.1
    limit: DurationS | None = None
    nics: NicsText | None = None
    save: Switch = True
    names: tuple[str, ...] = ()


class Sample(Section):
    """The sample file."""

    name: str
    train: Inner = Inner()
    nodes: tuple[Inner, ...] = ()
    sites: dict[str, Inner] = pydantic.Field(default={})


def check(text, *settings) -> Sample:
    """Read, override and validate a sample file."""
    return validate(override(read_document(text, "job.yaml"), settings), Sample)


def error_of(text, *settings) -> str:
    """Read a sample file that is wrong and give the error's text."""
    with pytest.raises(BadInputError) as caught:
        check(text, *settings)
    return str(caught.value)


class TestReading:
    def test_every_key_has_its_place(self):
        """A place is file:line:column, counted from 1; absent keys stand where their parent does."""
        document = read_document("name: x\ntrain: {steps: 5}\nnodes:\n  - steps: 1\n", "job.yaml")
        assert document.place(("train", "steps")) == "job.yaml:2:9"
        assert document.place(("nodes", 0, "steps")) == "job.yaml:4:5"
        assert document.place(("train", "absent")) == "job.yaml:2:1"
        assert document.place(("absent",)) == "job.yaml"

    def test_an_error_names_place_and_path(self):
        """Rooms make their own errors about a path."""
        document = read_document("nodes:\n  - {chip: 910b3}\n", "fleet.yaml")
        text = str(document.error(("nodes", 0, "chip"), "no such chip"))
        assert text == "fleet.yaml:2:6  nodes[0].chip: no such chip"

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("3e-4", 3e-4),
            ("1_000", 1000),
            ("010", 10),
            ("-.5", -0.5),
            ("08:30", "08:30"),
            ("10:30", "10:30"),
            ("2026-12-24", "2026-12-24"),
            ("no", "no"),
            ("true", True),
            ("~", None),
            ("'5'", "5"),
            ("1e", "1e"),
            ("[a, 2]", ["a", 2]),
        ],
    )
    def test_scalars_mean_what_they_look_like(self, text, value):
        """Exponents are numbers; times, dates and `no` stay text; quotes make text."""
        assert read_document(f"key: {text}", "f").value == {"key": value}

    def test_keys_are_text(self):
        """A key that looks like a number or a switch is the text that was written."""
        assert list(read_document("1: a\nno: b\n", "f").value) == ["1", "no"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "job.yaml  is empty; write keys and values, such as `name: first`"),
            ("# nothing\n", "job.yaml  is empty; write keys and values, such as `name: first`"),
            ("- 1", "job.yaml:1:1  must be a mapping (`key: value` lines), got the list [1]"),
            ("a: 1\nb: {a: 1,\n a: 2}", "job.yaml:3:2  b.a: written twice; first at job.yaml:2:5"),
            ("name: a: b", "job.yaml:1:8  not valid YAML: mapping values are not allowed here"),
            ("a:\n\tb: 1", "job.yaml:2:1  not valid YAML: a tab is used for indentation; use spaces"),
            ("x: \x07", "job.yaml:1:1  character U+0007 is not allowed in YAML"),
            ("a: 1\n---\nb: 2", "job.yaml:2:1  not valid YAML: but found another document"),
            ("a: *x", "job.yaml:1:4  not valid YAML: found undefined alias 'x'"),
            ("a: &b {c: 1}\nd:\n  <<: *b", "job.yaml:3:3  d.<<: merge keys are not read; write the keys out"),
            ("[a, b]: 1", "job.yaml:1:1  : a key must be one word, not a list or mapping"),
            ('a: "\\0"', "job.yaml:1:4  a: holds the character U+0000, which can't be shown; leave it out"),
            ("a: " + "9" * 5000, "job.yaml:1:4  a: a number of 5000 digits is too long"),
        ],
    )
    def test_broken_files_say_where(self, text, message):
        """Every way to break a file gives one line with its place."""
        assert error_of(text) == message

    def test_tags_are_refused(self):
        """A tag that would make an object is refused, not run."""
        assert "tags such as" in error_of("a: !!python/object/apply:os.system [true]")

    def test_bytes_must_be_utf8(self):
        """Bytes of another encoding are refused with their line; a byte order mark is dropped."""
        assert decode_text(b"\xef\xbb\xbfa: 1", "f") == "a: 1"
        with pytest.raises(BadInputError, match="f:2  byte 0xff is not UTF-8 text"):
            decode_text(b"a: 1\nb: \xff", "f")


class TestBounds:
    def test_aliases_cannot_explode(self):
        """Aliases of aliases stop at a bound instead of filling the memory."""
        rows = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
        assert "holds too many values" in error_of("\n".join(rows))

    @pytest.mark.parametrize("text", ["a: " + "[" * 40 + "]" * 40, "a: " + "[" * 5000, "a: &a [*a]"])
    def test_depth_is_bounded(self, text):
        """Deep and endless nesting is refused."""
        assert "nested too deeply" in error_of(text)

    def test_length_is_bounded(self):
        """A file far too long is refused before it's parsed."""
        assert "at most 500,000 are read" in error_of("#" * (TEXT_LENGTH_MAX + 1))

    @given(st.text(max_size=60))
    def test_any_text_is_read_or_refused(self, text):
        """Whatever the text, the answer is a document or a BadInputError."""
        with contextlib.suppress(BadInputError):
            assert isinstance(read_document(text, "f").value, dict)

    @given(
        st.dictionaries(
            st.text("abc", min_size=1), st.recursive(st.integers() | st.text("ab1 :-"), st.lists), max_size=4
        )
    )
    def test_what_yaml_writes_is_read_back(self, value):
        """Plain values survive a trip through YAML."""
        text = yaml.safe_dump(value)
        if value:
            assert read_document(text, "f").value == value


class TestValidation:
    def test_a_right_file_is_read(self):
        """Units, lists and sections become typed values."""
        content = check("name: x\ntrain: {steps: 5, limit: 40h, nics: 8x400G, save: no, names: [a, b]}\n")
        train = content.train
        assert (train.steps, train.limit, train.nics.total_gbps, train.save) == (5, 144000.0, 3200.0, False)
        assert train.names == ("a", "b")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("name: 5", "job.yaml:1:1  name: must be text, got 5; put it in quotes"),
            ("name:", "job.yaml:1:1  name: has no value; must be text, or leave the key out"),
            ("train: {}", "job.yaml  name: missing; this key is required"),
            ("name: x\ntrain: {step: 5}", "job.yaml:2:9  train.step: unknown key; did you mean steps?"),
            ("name: x\ntrain: {lr: 5}", "job.yaml:2:9  train.lr: unknown key; did you mean learning_rate?"),
            ("name: x\nzzz: 1", "job.yaml:2:1  zzz: unknown key; allowed: name, train, nodes, sites"),
            ("name: x\nnodes: [{stepz: 1}]", "job.yaml:2:10  nodes[0].stepz: unknown key; did you mean steps?"),
            ("name: x\nsites: {n: {stepz: 1}}", "job.yaml:2:13  sites.n.stepz: unknown key; did you mean steps?"),
            ("name: x\ntrain: {steps: 0}", "job.yaml:2:9  train.steps: must be 1 or more, got 0"),
            (
                "name: x\ntrain: {steps: '5'}",
                "job.yaml:2:9  train.steps: must be a whole number, got '5'; drop the quotes",
            ),
            ("name: x\ntrain: {steps: true}", "job.yaml:2:9  train.steps: must be a whole number, got true"),
            ("name: x\ntrain: {steps: 1.5}", "job.yaml:2:9  train.steps: must be a whole number, got 1.5"),
            (
                "name: x\ntrain: {learning_rate: 1e999}",
                "job.yaml:2:9  train.learning_rate: must be a finite number, got inf",
            ),
            ("name: x\ntrain: {names: a}", "job.yaml:2:9  train.names: must be a list, got 'a'"),
            ("name: x\ntrain: {save: maybe}", "job.yaml:2:9  train.save: got 'maybe'; write yes or no"),
            ("name: x\ntrain: 5", "job.yaml:2:1  train: must be a mapping of keys, got 5"),
            ("name: x\nnodes: [5]", "job.yaml:2:9  nodes[0]: must be a mapping of keys, got 5"),
        ],
    )
    def test_each_mistake_has_its_line(self, text, message):
        """One mistake, one line: place, path, value got, what is allowed, the nearest name."""
        assert error_of(text) == message

    def test_all_mistakes_come_at_once(self):
        """Several mistakes are reported together, in the file's order."""
        lines = error_of("name: 5\ntrain: {limit: 40 parsecs, steps: 0}\nzzz: 1").splitlines()
        assert [line.split("  ")[0] for line in lines] == [
            "job.yaml:1:1",
            "job.yaml:2:9",
            "job.yaml:2:28",
            "job.yaml:3:1",
        ]

    def test_the_list_of_mistakes_is_bounded(self):
        """After ten lines the rest is counted."""
        lines = str(problems_error([str(number) for number in range(25)])).splitlines()
        assert (len(lines), lines[-1]) == (11, "... and 15 more")


class TestOverride:
    def test_settings_win_in_order(self):
        """A later setting wins, sections are made on the way, values are YAML."""
        content = check("name: x", "train.steps=5", "train.steps=7", "train.names=[a, b]", "train.limit=2h")
        assert (content.train.steps, content.train.names, content.train.limit) == (7, ("a", "b"), 7200.0)

    def test_an_empty_value_unsets(self):
        """A setting without a value is YAML's null."""
        assert check("name: x\ntrain: {limit: 2h}", "train.limit=").train.limit is None

    def test_the_file_stays_as_it_was(self):
        """Overriding gives a new document."""
        document = read_document("name: x\ntrain: {steps: 1}", "f")
        override(document, ["train.steps=2"])
        assert document.value["train"] == {"steps": 1}

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("train.steps=0", "--set train.steps=0  train.steps: must be 1 or more, got 0"),
            ("train.stepz=1", "--set train.stepz=1  train.stepz: unknown key; did you mean steps?"),
            ("train={stepz: 1}", "--set train={stepz: 1}  train.stepz: unknown key; did you mean steps?"),
            ("train.steps", "--set train.steps  must be KEY=VALUE, such as --set train.steps=5"),
            ("=5", "--set =5  must be KEY=VALUE, such as --set train.steps=5"),
            ("train..steps=5", "--set train..steps=5  must be KEY=VALUE, such as --set train.steps=5"),
            ("name.first=5", "--set name.first=5  name is 'x', so it has no keys to set"),
            ("name=[", "--set name=[  not valid YAML: expected the node content, but found '<stream end>'"),
        ],
    )
    def test_errors_name_the_flag(self, setting, message):
        """A wrong setting is reported by the flag as it was typed."""
        assert error_of("name: x\ntrain: {steps: 1}", setting) == message


class TestNames:
    def test_paths_read_like_code(self):
        """Lists in brackets, keys with dots."""
        assert (dotted_path(("nodes", 1, "chip")), dotted_path(())) == ("nodes[1].chip", "")

    def test_nearest_finds_slips_only(self):
        """A slip finds its name; something else finds nothing."""
        assert nearest("globl_batch_size", ["global_batch_size", "steps"]) == ("global_batch_size",)
        assert nearest("colour", ["global_batch_size", "steps"]) == ()
