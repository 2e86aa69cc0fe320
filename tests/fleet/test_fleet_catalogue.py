"""The chip catalogue: what ships, how a person adds to it, and what it says when something is wrong."""

import re
import tomllib
from pathlib import Path

import pytest

from argosy.contracts.codec import decode, encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Chip
from argosy.fleet.catalogue import (
    BUILT_IN,
    DTYPES,
    LIMITS,
    Catalogue,
    load_catalogue,
    nearest_names,
    parse_catalogue,
)

CATALOGUE = load_catalogue()

# What vendors print with 2:4 sparsity, TFLOPS; the catalogue's dense figure is at most half of it.
SPARSE_TFLOPS = {
    ("a100-sxm-80gb", "bf16"): 624,
    ("h100-sxm", "bf16"): 1979,
    ("h100-sxm", "fp8"): 3958,
    ("h100-pcie", "bf16"): 1513,
    ("h200-sxm", "tf32"): 989.5,
    ("h800-sxm", "bf16"): 1979,
    ("l40s", "bf16"): 733,
    ("l4", "fp8"): 485,
    ("b200", "bf16"): 4500,
    ("b300", "fp8"): 9000,
    ("gb200", "bf16"): 5000,
    ("gb300", "fp8"): 10000,
    ("mi300x", "bf16"): 2614.9,
    ("mi355x", "fp8"): 10066.3,
}
# What vendors print for a chip's links, both directions together, GB/s; the catalogue's one direction is half of it.
BOTH_WAYS_GBYTES_S = {
    "v100-sxm-16gb": 300,
    "a100-sxm-40gb": 600,
    "a800-sxm-80gb": 400,
    "h100-sxm": 900,
    "h800-sxm": 400,
    "h20": 900,
    "b200": 1800,
    "gb300": 1800,
    "mi300x": 896,
    "mi355x": 1075.2,
    "ascend-910b3": 392,
    "gaudi-3": 1050,
    "tpu-v5e": 400,
    "tpu-v6e": 800,
}
FAMILIES = (
    *("v100", "a100", "a800", "h100", "h800", "h20", "h200", "b200", "b300", "gb200", "gb300"),
    *("mi250", "mi300x", "mi325x", "mi350x", "mi355x", "gaudi-2", "gaudi-3", "ascend-910b1", "ascend-910b2"),
    *("ascend-910b3", "ascend-910b4", "ascend-910c", "kunlun-p800", "hygon", "metax", "iluvatar", "tpu-v5p", "cpu"),
)


def reading(text: str) -> str:
    """Read a catalogue that is wrong, and return what it says."""
    with pytest.raises(BadInputError) as caught:
        parse_catalogue(text, "mine.toml", CATALOGUE)
    return str(caught.value)


class TestBuiltInCatalogue:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_knows_every_promised_family(self, family: str) -> None:
        """Every family that the project promises has at least one chip."""
        assert any(name.startswith(family) for name in CATALOGUE.names())

    def test_holds_enough_chips(self) -> None:
        """The catalogue never shrinks below what the README says of it."""
        assert len(CATALOGUE) >= 50

    def test_names_are_plain(self) -> None:
        """Names are lower-case words with dashes, so they need no quoting in YAML or a shell."""
        assert [name for name in CATALOGUE.names() if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []

    @pytest.mark.parametrize("chip", list(CATALOGUE), ids=lambda chip: chip.name)
    def test_every_figure_has_a_source(self, chip: Chip) -> None:
        """No figure is shown whose source is not stated."""
        figures = [f"tflops.{dtype}" for dtype in chip.tflops]
        figures += [key for key in LIMITS if key not in DTYPES and getattr(chip, key) is not None]
        assert [figure for figure in figures if len(chip.sources.get(figure, "")) < 10] == []

    def test_sources_are_all_defined_and_all_used(self) -> None:
        """Each source key of the file has a text, and no text is left over."""
        data = tomllib.loads(BUILT_IN.read_text(encoding="utf-8"))
        assert {key for chip in data["chips"].values() for key in chip["from"]} == set(data["sources"])

    @pytest.mark.parametrize("chip", list(CATALOGUE), ids=lambda chip: chip.name)
    def test_figures_are_plausible(self, chip: Chip) -> None:
        """Rates grow as formats shrink, and no chip beats what its power or memory can carry."""
        wide, narrow = chip.tflops.get("fp32", 0), chip.tflops.get("bf16") or chip.tflops.get("fp16") or 1e9
        assert wide <= narrow
        if "fp8" in chip.tflops:
            assert chip.tflops["fp8"] >= narrow
        if chip.tdp_w and "bf16" in chip.tflops:
            assert 0.2 <= chip.tflops["bf16"] / chip.tdp_w <= 3
        if chip.memory_gb and chip.memory_gbytes_s:
            assert 0.3 <= chip.memory_gbytes_s / chip.memory_gb <= 60

    @pytest.mark.parametrize(("name", "dtype"), SPARSE_TFLOPS, ids=str)
    def test_rates_are_dense(self, name: str, dtype: str) -> None:
        """Where the vendor prints the rate with sparsity, the catalogue holds half of it."""
        assert CATALOGUE.chip(name).tflops[dtype] == pytest.approx(SPARSE_TFLOPS[name, dtype] / 2, rel=0.02)

    @pytest.mark.parametrize(
        ("name", "cores", "ghz"),
        [("910b1", 24, 1.85), ("910b2", 24, 1.8), ("910b3", 20, 1.8), ("910b4", 20, 1.5), ("910c", 48, 1.8)],
    )
    def test_ascend_counts_cube_units_alone(self, name: str, cores: int, ghz: float) -> None:
        """Huawei's 376, 313, 280 and 752 TFLOPS include the vector units, which multiply no matrices."""
        tflops = CATALOGUE.chip(f"ascend-{name}").tflops
        assert tflops["bf16"] == tflops["fp16"] == pytest.approx(cores * ghz * 2 * 16**3 / 1000, rel=1e-3)
        assert tflops["int8"] == pytest.approx(2 * tflops["bf16"], rel=1e-3)

    @pytest.mark.parametrize("name", ["h800-sxm", "ascend-910b3", "a800-sxm-80gb", "h20"])
    def test_chips_of_the_examples_have_a_dated_price(self, name: str) -> None:
        """A price in another currency says when it was recorded and how it was converted."""
        chip = CATALOGUE.chip(name)
        assert chip.price_per_hour
        assert re.search(r"CNY.* 20\d\d.*6\.72 CNY a USD", chip.sources["price_per_hour"])

    @pytest.mark.parametrize("name", BOTH_WAYS_GBYTES_S)
    def test_links_count_one_direction(self, name: str) -> None:
        """Where the vendor adds up both directions, the catalogue holds half."""
        assert CATALOGUE.chip(name).scale_up_gbytes_s == pytest.approx(BOTH_WAYS_GBYTES_S[name] / 2)

    def test_product_names_belong_to_one_chip(self) -> None:
        """No two chips claim the same product name, so detection is never a toss-up."""
        data = tomllib.loads(BUILT_IN.read_text(encoding="utf-8"))
        names = [name.lower() for chip in data["chips"].values() for name in chip.get("product_names", ())]
        assert len(names) == len(set(names)) == len(CATALOGUE.product_names)

    def test_chips_survive_json(self) -> None:
        """A chip written as JSON reads back equal."""
        chip = CATALOGUE.chip("h800-sxm")
        assert decode(encode(chip), Chip) == chip

    @pytest.mark.reference
    def test_agrees_with_nominal_figures_of_others(self, reference_data: Path) -> None:
        """The A100's nominal figures are those that FlagPerf measured against."""
        text = (reference_data / "planner/flagperf/base_micro.csv").read_text(encoding="utf-8")
        a100 = CATALOGUE.chip("a100-sxm-40gb")
        assert f"{a100.tflops['bf16']:.1f}TFLOPS" in text
        assert f"{a100.memory_gbytes_s:.0f}GB/s" in text


class TestLookup:
    def test_finds_by_name(self) -> None:
        """A known name gives the chip."""
        assert CATALOGUE.chip("h800-sxm").tflops["bf16"] == 989.4

    @pytest.mark.parametrize(
        ("wrong", "meant"),
        [("910b3", "ascend-910b3"), ("h100", "h100-sxm"), ("V100_32GB", "v100-sxm-32gb"), ("mi30x", "mi300x")],
    )
    def test_names_the_nearest(self, wrong: str, meant: str) -> None:
        """An unknown name answers with the names that were probably meant."""
        assert meant in nearest_names(wrong, CATALOGUE.names())

    def test_says_what_to_do_next(self) -> None:
        """The error names the chip, the nearest one and the command that lists all."""
        with pytest.raises(BadInputError) as caught:
            CATALOGUE.chip("910b3")
        count = len(CATALOGUE)
        wanted = f'no chip "910b3" in the catalogue; nearest: ascend-910b3. `argosy chips` lists all {count}.'
        assert str(caught.value) == wanted


class TestOwnFile:
    def test_replaces_a_figure(self, tmp_path: Path) -> None:
        """A person's own price replaces the built-in one and carries its own source; all else stays."""
        path = tmp_path / "prices.toml"
        path.write_text('[chips.h100-sxm.from."our contract"]\nprice_per_hour = 2.1\n', encoding="utf-8")
        chip, before = load_catalogue(path).chip("h100-sxm"), CATALOGUE.chip("h100-sxm")
        assert (chip.price_per_hour, chip.sources["price_per_hour"]) == (2.1, "our contract")
        assert (chip.tflops, chip.memory_gb) == (before.tflops, before.memory_gb)

    def test_adds_a_chip(self) -> None:
        """A new chip needs a title, a maker and whatever figures are known."""
        text = '[chips.x1]\ntitle = "X1"\nvendor = "X"\nproduct_names = ["X One"]\n'
        text += "from.sheet = { bf16 = 10, memory_gb = 8 }\n"
        added = parse_catalogue(text, "mine.toml", CATALOGUE)
        assert added.chip("x1").tflops == {"bf16": 10.0}
        assert added.product_names["x one"] == "x1"
        assert len(added) == len(CATALOGUE) + 1

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[chips.x1", "mine.toml: not TOML"),
            ("[chip.x1]", "mine.toml.chip: unknown key; did you mean chips?"),
            ("[chips]\nx1 = 3", "chips.x1: got 3; a table is needed"),
            ('[chips.x1]\ntitle = "X"', "chips.x1: a new chip needs vendor"),
            ("[chips.h20]\ntdp_w = 5", "chips.h20.tdp_w: unknown key"),
            ("[chips.h20.from.me]\nfp99 = 5", "chips.h20.from.me.fp99: unknown key"),
            ("[chips.h20.from.me]\nmemory = 5", "did you mean memory_gb?"),
            ("[chips.h20.from.me]\nbf16 = -1", "from.me.bf16: got -1; a number above 0"),
            ('[chips.h20.from.me]\nbf16 = "148"', "a number above 0"),
            ("[chips.h20.from.me]\nbf16 = nan", "a number above 0"),
            ("[chips.h20.from.me]\nmemory_gb = 96000", "at most 4000"),
            ("[chips.h20.from.me]\nscale_up_chips = 1.5", "a whole number of chips"),
            ("[chips.h20]\nyear = 'soon'", "chips.h20.year: got 'soon'; a year is needed"),
            ("[chips.h20]\nproduct_names = 'H20'", "chips.h20.product_names: got 'H20'; a list of texts is needed"),
            ("[sources]\nme = 5", "sources.me: got 5; a text is needed"),
            ("[chips.'H 20']\ntitle = 'H'\nvendor = 'N'", "chips.H 20: a name is lower-case letters"),
        ],
    )
    def test_says_what_is_wrong(self, text: str, said: str) -> None:
        """Every mistake names the file, the key, the value and what is allowed."""
        message = reading(text)
        assert said in message
        assert message.startswith("mine.toml")

    def test_missing_file(self, tmp_path: Path) -> None:
        """A file that isn't there is a clear error."""
        with pytest.raises(BadInputError, match="there is no such catalogue"):
            load_catalogue(tmp_path / "none.toml")

    def test_base_is_left_alone(self) -> None:
        """Reading a file over the catalogue changes no chip of the catalogue itself."""
        before = dict(CATALOGUE.chips)
        parse_catalogue("[chips.h20.from.me]\nbf16 = 1", "mine.toml", CATALOGUE)
        assert dict(CATALOGUE.chips) == before
        assert isinstance(CATALOGUE, Catalogue)
