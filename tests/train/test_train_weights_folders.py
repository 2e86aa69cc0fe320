"""Weights written as a Hugging Face folder and read from one."""

import json
import resource
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.model.config import read_config
from argosy.model.shape import ModelShape
from argosy.train.data.tokenizing import make_tokenizer, read_choice
from argosy.train.weights.exporting import MARKER_FILE, export_hf
from argosy.train.weights.importing import INDEX_FILE, SINGLE_FILE, open_hf
from argosy.train.weights.names import parameter_shapes


def config(**changes: Any) -> str:
    """Write the config.json of a model of two narrow layers."""
    values = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
        "vocab_size": 256,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    }
    return json.dumps(values | changes)


def shape_of(text: str) -> ModelShape:
    """Read the shape of a configuration."""
    return read_config(text, "config.json")


def tensors(text: str) -> dict[str, torch.Tensor]:
    """Draw all parameters of a configuration."""
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(size, generator=generator) for name, size in parameter_shapes(shape_of(text)).items()}


def export(to: Path, text: str | None = None, dtype: str = "fp32", **given: Any) -> Path:
    """Export a small model and return its folder."""
    text = text or config()
    given = {"tensors": tensors(text).items(), "tokenizer": None} | given
    export_hf(**given, config_text=text, to=to, dtype=dtype)
    return to


def read_all(folder: Path, shape: ModelShape) -> dict[str, torch.Tensor]:
    """Import every tensor."""
    with open_hf(folder, shape) as reader:
        return {name: reader.tensor(name) for name in reader.names}


class TestRoundTrip:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"tie_word_embeddings": True},
            {"model_type": "qwen2", "use_sliding_window": False},
            {"model_type": "qwen3", "head_dim": 6},
            {"model_type": "mistral", "sliding_window": None},
        ],
    )
    @pytest.mark.parametrize("shard_bytes", [10**9, 3000])
    def test_gives_every_tensor_back(self, tmp_path: Path, changes: dict[str, Any], shard_bytes: int) -> None:
        """What was exported, in one file or in shards, is imported bit for bit."""
        text = config(**changes)
        found = read_all(export(tmp_path / "out", text, shard_bytes=shard_bytes), shape_of(text))
        assert found.keys() == tensors(text).keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors(text).items())

    @pytest.mark.parametrize(("dtype", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
    def test_rounds_to_the_dtype_asked_for(self, tmp_path: Path, dtype: str, kind: torch.dtype) -> None:
        """Narrow files hold the rounded numbers and are read back as float32."""
        folder = export(tmp_path / "out", dtype=dtype)
        assert {tensor.dtype for tensor in load_file(folder / SINGLE_FILE).values()} == {kind}
        found = read_all(folder, shape_of(config()))["norm.weight"]
        assert torch.equal(found, tensors(config())["norm.weight"].to(kind).float())
        assert found.dtype == torch.float32

    def test_takes_views_of_one_buffer(self, tmp_path: Path) -> None:
        """Parameters that share memory, as in a flat bucket, are written one by one."""
        sizes = parameter_shapes(shape_of(config()))
        flat = torch.arange(100_000, dtype=torch.float32)
        views = [(name, flat[: torch.Size(size).numel()].view(size)) for name, size in sizes.items()]
        found = read_all(export(tmp_path / "out", tensors=views), shape_of(config()))
        assert torch.equal(found["norm.weight"], flat[:8])


class TestExportedFolder:
    def test_has_a_config_that_loaders_understand(self, tmp_path: Path) -> None:
        """The configuration names class and dtype, and drops what described other weights."""
        folder = export(tmp_path / "out", config(quantization_config={"bits": 4}, extra="kept"), dtype="bf16")
        found = json.loads((folder / "config.json").read_text())
        assert found["architectures"] == ["LlamaForCausalLM"]
        assert (found["torch_dtype"], found["extra"], found["tie_word_embeddings"]) == ("bfloat16", "kept", False)
        assert "quantization_config" not in found

    def test_carries_the_tokenizer(self, tmp_path: Path) -> None:
        """The tokenizer goes along, and its end of text into the configuration."""
        (tmp_path / "t.json").write_text(make_tokenizer(read_choice("bytes"), lambda: iter([])).json)
        folder = export(tmp_path / "out", tokenizer=tmp_path / "t.json")
        assert (folder / "tokenizer.json").read_text() == (tmp_path / "t.json").read_text()
        assert json.loads((folder / "tokenizer_config.json").read_text())["eos_token"] == "<|endoftext|>"
        assert json.loads((folder / "config.json").read_text())["eos_token_id"] == 255

    def test_is_as_open_as_other_files(self, tmp_path: Path) -> None:
        """Weights have the permissions that any new file gets, so that who serves them can read them."""
        folder = export(tmp_path / "out")
        assert (folder / SINGLE_FILE).stat().st_mode == (folder / "config.json").stat().st_mode

    def test_names_its_shards_as_loaders_expect(self, tmp_path: Path) -> None:
        """Shards are numbered from 1 of all, none is larger than asked, and the index finds every tensor."""
        folder = export(tmp_path / "out", shard_bytes=10_000)
        files = sorted(path.name for path in folder.glob("*.safetensors"))
        assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
        index = json.loads((folder / INDEX_FILE).read_text())
        assert set(index["weight_map"].values()) == set(files)
        assert index["metadata"]["total_size"] == sum(4 * tensor.numel() for tensor in tensors(config()).values())

    def test_replaces_an_earlier_export_whole(self, tmp_path: Path) -> None:
        """A second export leaves no file of the first."""
        export(tmp_path / "out", shard_bytes=3000)
        export(tmp_path / "out")
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MARKER_FILE, "config.json", SINGLE_FILE]
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    @pytest.mark.parametrize("name", ["notes.txt", SINGLE_FILE])
    def test_refuses_a_folder_with_something_else_in_it(self, tmp_path: Path, name: str) -> None:
        """Files that no export wrote, even other weights, are never overwritten."""
        (tmp_path / name).write_text("precious")
        with pytest.raises(BadInputError, match=f"holds {name}, which no earlier export wrote"):
            export(tmp_path)
        assert (tmp_path / name).read_text() == "precious"

    def test_refuses_an_export_that_someone_added_to(self, tmp_path: Path) -> None:
        """An earlier export with a foreign file in it is kept."""
        (export(tmp_path / "out") / "README.md").write_text("mine")
        with pytest.raises(BadInputError, match=r"holds README\.md"):
            export(tmp_path / "out")


class TestExportErrors:
    def test_keeps_the_old_export_when_the_disk_is_full(self, tmp_path: Path) -> None:
        """Nothing of the new one stays, the old one is whole, and the error names the folder."""
        export(tmp_path / "out")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            with pytest.raises(InfrastructureError, match=r"out: no room while writing.*GB are free"):
                export(tmp_path / "out")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert read_all(tmp_path / "out", shape_of(config()))

    def test_asks_for_room_before_it_begins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk that is too small for the model is known from its shape."""
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
        with pytest.raises(InfrastructureError, match=r"out needs 0\.01 GB, 0\.00 GB are free"):
            export(tmp_path / "out")

    def test_leaves_nothing_when_the_tensors_fail(self, tmp_path: Path) -> None:
        """An error while tensors are gathered goes through and leaves no folder."""

        def failing() -> Iterator[tuple[str, torch.Tensor]]:
            yield next(iter(tensors(config()).items()))
            raise RuntimeError("a peer died")

        with pytest.raises(RuntimeError, match="a peer died"):
            export(tmp_path / "out", tensors=failing())
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"norm.weight": None}, r"1 parameters of model did not come: norm\.weight"),
            ({"rotary.weight": torch.ones(2)}, '"rotary.weight" is no parameter'),
            ({"norm.weight": torch.ones(9)}, r"norm\.weight has shape \[9\], model needs \[8\]"),
            ({"norm.weight": torch.full((8,), 1e6)}, r"norm\.weight holds numbers beyond 65,504"),
        ],
    )
    def test_refuses_other_tensors(self, tmp_path: Path, change: dict[str, Any], said: str) -> None:
        """Only exactly the model's tensors are written."""
        drawn = {name: tensor for name, tensor in (tensors(config()) | change).items() if tensor is not None}
        with pytest.raises(BadInputError, match=said):
            export(tmp_path / "out", tensors=drawn.items(), dtype="fp16")

    def test_refuses_an_unknown_dtype(self, tmp_path: Path) -> None:
        """The dtypes there are get listed."""
        with pytest.raises(BadInputError, match='no dtype "int8"; allowed: fp32, bf16, fp16'):
            export(tmp_path / "out", dtype="int8")

    def test_refuses_a_file_as_target(self, tmp_path: Path) -> None:
        """A file is never replaced by a folder."""
        (tmp_path / "out").write_text("mine")
        with pytest.raises(BadInputError, match="out is a file"):
            export(tmp_path / "out")


class TestImportErrors:
    def rewrite(self, folder: Path, **changes: torch.Tensor | None) -> None:
        """Change tensors of an exported file; None removes one."""
        there = load_file(folder / SINGLE_FILE) | changes
        save_file({name: tensor for name, tensor in there.items() if tensor is not None}, folder / SINGLE_FILE)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"model.norm.weight": None}, r"1 missing: model\.norm\.weight"),
            ({"lm_head.weight": None}, r"1 missing: lm_head\.weight; is tie_word_embeddings: true missing"),
            ({"model.norm.bias": torch.ones(8)}, r"1 unknown: model\.norm\.bias"),
            ({"model.norm.weight": torch.ones(9)}, r"1 of another shape: model\.norm\.weight \[9\], expected \[8\]"),
            ({"model.norm.weight": torch.ones(8, dtype=torch.int8)}, r"1 not readable .*: model\.norm\.weight I8"),
        ],
    )
    def test_names_the_tensors_that_do_not_match(self, tmp_path: Path, change: dict[str, Any], said: str) -> None:
        """Missing, unknown, mis-shaped and unreadable tensors are named when the folder is opened."""
        self.rewrite(export(tmp_path / "out"), **change)
        with pytest.raises(BadInputError, match=said):
            open_hf(tmp_path / "out", shape_of(config()))

    def test_lists_the_first_ten(self, tmp_path: Path) -> None:
        """A wholly different model gives one screen, not thousands of names."""
        with pytest.raises(BadInputError, match=r"45 missing: .*, and 35 more$"):
            open_hf(export(tmp_path / "out"), replace(shape_of(config()), num_layers=7))

    def test_ignores_tables_and_the_copy_of_a_tied_head(self, tmp_path: Path) -> None:
        """What older files carry besides the parameters does no harm."""
        text = config(tie_word_embeddings=True)
        extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2), "lm_head.weight": torch.ones(256, 8)}
        self.rewrite(export(tmp_path / "out", text), **extra)
        assert "head.weight" not in read_all(tmp_path / "out", shape_of(text))

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            (SINGLE_FILE, b"half a file", "not a whole safetensors file"),
            ("pytorch_model.bin", b"", "pytorch_model.bin is pickled and not read"),
            (INDEX_FILE, b"{", "not an index of shards"),
            (INDEX_FILE, b'{"weight_map": []}', "not an index of shards"),
            (INDEX_FILE, b'{"weight_map": {"a": 1}}', "not an index of shards"),
            (INDEX_FILE, b'{"weight_map": {"a": "../b"}}', r"names files outside its folder: \.\./b"),
            (INDEX_FILE, b'{"weight_map": {"a": "b"}}', "names files that are not there: b"),
            ("README.md", b"", "holds neither model.safetensors nor"),
        ],
    )
    def test_says_what_is_wrong_with_the_folder(self, tmp_path: Path, name: str, content: bytes, said: str) -> None:
        """A folder that holds no whole set of weights is refused with the file at fault."""
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInputError, match=said):
            open_hf(tmp_path, shape_of(config()))

    def test_refuses_a_missing_folder(self, tmp_path: Path) -> None:
        """A folder that is not there is named."""
        with pytest.raises(BadInputError, match="none: no such folder"):
            open_hf(tmp_path / "none", shape_of(config()))

    def test_refuses_a_model_that_the_trainer_can_not_run(self, tmp_path: Path) -> None:
        """Weights of another kind of model are refused by what the trainer says of it."""
        with pytest.raises(BadInputError, match="biases on the output"):
            open_hf(tmp_path, replace(shape_of(config()), o_bias=True))
