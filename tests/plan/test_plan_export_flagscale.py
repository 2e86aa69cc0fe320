"""A plan as FlagScale's heterogeneous process meshes."""

from typing import Any

import pytest
import yaml

from argosy.contracts.errors import BadInputError
from argosy.plan.exports.flagscale import export_flagscale
from support.exports import flagscale_split, make_plan, make_replica, named_shape, read_flagscale, split_of

LLAMA = named_shape("llama-3-8b")
MIXED = make_replica([6, 8, 10, 8], tp=[4, 4, 2, 2], chip_class=["n/old", "n/old", "n/new", "n/new"])


class TestMeshes:
    def test_consecutive_stages_of_one_kind_are_one_mesh(self) -> None:
        """Each kind of chip has a mesh of its own [TP, CP, EP, DP, PP]; layers are listed by stage."""
        text = export_flagscale(make_plan(LLAMA, MIXED, MIXED), LLAMA)
        values = read_flagscale(text)
        assert values["hetero_process_meshes"] == [4, 1, 1, 2, 2, 2, 1, 1, 2, 2]
        assert values["hetero_device_types"] == ["n-old", "n-new"]
        assert values["hetero_pipeline_layer_split"] == [6, 8, 10, 8]
        assert flagscale_split(text) == split_of(make_plan(LLAMA, MIXED, MIXED))

    def test_a_kind_that_comes_again(self) -> None:
        """FlagScale sorts ranks by kind, so a kind that comes again later in the pipeline is named apart."""
        replica = make_replica([8] * 4, chip_class=["n/old", "n/new", "n/old", "n/old"])
        values = read_flagscale(export_flagscale(make_plan(LLAMA, replica), LLAMA))
        assert values["hetero_device_types"] == ["n-old", "n-new", "n-old-2"]
        assert values["hetero_process_meshes"][-1] == 2

    def test_two_vendors(self) -> None:
        """Chips of two vendors talk through their hosts' memory."""
        vendors = {"n/old": "Acme", "n/new": "Bolt"}
        text = export_flagscale(make_plan(LLAMA, MIXED), LLAMA, vendors)
        assert read_flagscale(text)["hetero_use_cpu_communication"] is True
        assert "cpu_communication" not in export_flagscale(make_plan(LLAMA, MIXED), LLAMA, {"n/old": "Acme"})

    def test_experts(self) -> None:
        """EP ranks are data-parallel ones too, and each mesh says by how many ranks an expert is cut."""
        shape = named_shape("deepseek-v3")
        plan = make_plan(shape, *[make_replica([16, 15, 15, 15], ep=8)] * 2, zero_stage=1)
        text = export_flagscale(plan, shape)
        assert read_flagscale(text)["hetero_process_meshes"] == [1, 1, 8, 16, 4]
        assert read_flagscale(text)["expert_tensor_parallel_size_per_process_mesh"] == [1]
        assert flagscale_split(text) == split_of(plan)


class TestFile:
    def test_tables(self) -> None:
        """The file has the tables of a train configuration, and small numbers are read as numbers."""
        tables = yaml.safe_load(export_flagscale(make_plan(LLAMA, MIXED), LLAMA))
        assert set(tables) == {"system", "model"}
        assert tables["model"]["norm_epsilon"] == 1e-5
        assert tables["system"]["precision"]["bf16"] is True

    def test_recompute_by_stage(self) -> None:
        """Where stages differ, each says for all its micro-batches whether, how and how many layers."""
        way = {"recompute": ["full", "none", "full", "none"], "recompute_layers": [None, None, 3, None]}
        values = read_flagscale(export_flagscale(make_plan(LLAMA, make_replica([6, 8, 10, 8], 9, **way)), LLAMA))
        lists = [values[f"recompute_{name}_per_stage_micro_batch"] for name in ("granularity", "method", "num_layers")]
        assert [[row[2] for row in rows] for rows in lists] == [[1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 3, 1]]
        assert all(row[:2] == [1, 9] for rows in lists for row in rows)

    def test_recompute_everywhere(self) -> None:
        """What is alike in all stages is said once."""
        values = read_flagscale(export_flagscale(make_plan(LLAMA, make_replica([16, 16], recompute="full")), LLAMA))
        assert (values["recompute_granularity"], values["recompute_num_layers"]) == ("full", 1)
        assert "recompute_granularity_per_stage_micro_batch" not in values


class TestRefusals:
    @pytest.mark.parametrize(
        ("replica", "fields", "reason"),
        [
            ({"cp": 2}, {}, "context parallelism"),
            ({}, {"schedule": "gpipe"}, "schedule gpipe"),
            ({"recompute": ["selective", "none"]}, {}, "selective recompute in a part of the layers"),
            ({}, {"precision": "fp8"}, "precision fp8"),
            ({"tp": 16}, {}, "TP 16 on num_key_value_heads 8"),
        ],
    )
    def test_by_name(self, replica: dict[str, Any], fields: dict[str, Any], reason: str) -> None:
        """What meshes can't say is named."""
        with pytest.raises(BadInputError, match=f"FlagScale can't express this plan: {reason}"):
            export_flagscale(make_plan(LLAMA, make_replica([16, 16], **replica), **fields), LLAMA)

    def test_windows(self) -> None:
        """The Megatron-LM that FlagScale builds on has no words for windows."""
        shape = named_shape("mistral-7b")
        with pytest.raises(BadInputError, match="no arguments for mistral-7b: attention in windows"):
            export_flagscale(make_plan(shape, make_replica([32])), shape)

    def test_virtual_stages(self) -> None:
        """Meshes have one stage a rank."""
        plan = make_plan(LLAMA, make_replica([8] * 4, 8), virtual_stages=2)
        with pytest.raises(BadInputError, match="2 virtual stages"):
            export_flagscale(plan, LLAMA)

    def test_replicas_on_other_chips(self) -> None:
        """A stage that stands on different chips in two replicas has no mesh."""
        plan = make_plan(LLAMA, make_replica([16, 16]), make_replica([16, 16], chip_class="south/slow"))
        with pytest.raises(BadInputError, match="stage 1 on north/fast in some replicas, on south/slow in others"):
            export_flagscale(plan, LLAMA)
