"""Reads the text of an HF `config.json` into a ModelShape.

It picks the family and checks what no single field shows; fields are read in `model.families`. It opens no file.
"""

from difflib import get_close_matches
from pathlib import PurePath

from argosy.model.families import FAMILIES
from argosy.model.fields import Fields
from argosy.model.shape import ModelShape


def read_config(text: str, source: str) -> ModelShape:
    """Read a `config.json`.

    source: path of the text, named in errors and from which the model is named. Raises BadInputError naming file, line
    and field.
    """
    fields = Fields(text, source)
    _, read = FAMILIES[_family(fields)]
    shape = read(fields, _name(source, fields))
    _check(shape, fields)
    return shape


def _name(source: str, fields: Fields) -> str:
    path = PurePath(source)
    if path.stem != "config":
        return path.stem or "model"
    return path.parent.name or PurePath(str(fields.values.get("_name_or_path") or "model")).name or "model"


def _family(fields: Fields) -> str:
    """Find the family by model_type, else by architectures."""
    given = fields.values.get("model_type")
    if isinstance(given, str) and given in FAMILIES:
        return given
    if given is None:
        architectures = fields.sequence("architectures") or []
        for family, (architecture, _) in FAMILIES.items():
            if architecture in architectures:
                return family
        given = architectures[0] if architectures else None
    key = "model_type" if "model_type" in fields.values or given is None else "architectures"
    names = (*FAMILIES, *(architecture for architecture, _ in FAMILIES.values()))
    near = get_close_matches(str(given), names, n=1, cutoff=0.5)
    problem = "missing" if given is None else f"{given!r} is not supported" + (f"; nearest: {near[0]}" if near else "")
    raise fields.error(key, f"{problem}. Supported: {', '.join(FAMILIES)}")


def _check(shape: ModelShape, fields: Fields) -> None:
    """Refuse what each field allows alone but not together."""
    if shape.num_heads % shape.num_kv_heads:
        got = "got" if "num_key_value_heads" in fields.values else "missing, and by default"
        problem = f"{got} {shape.num_kv_heads}; expected a divisor of num_attention_heads {shape.num_heads}"
        raise fields.error("num_key_value_heads", problem)
    experts = shape.experts
    if experts and experts.per_token > experts.count:
        raise fields.error(
            "num_experts_per_tok", f"got {experts.per_token}; expected at most the {experts.count} experts there are"
        )
    rotary = shape.latent.rope_dim if shape.latent else shape.head_dim * shape.rope_share
    if shape.rope_theta is not None and shape.family != "gpt_neox" and rotary % 2:
        raise fields.error(
            "qk_rope_head_dim" if shape.latent else "head_dim", f"got {rotary:g}; rotary positions need an even number"
        )
    if shape.rope_share > 1:
        raise fields.error(
            "rotary_pct" if "rotary_pct" in fields.values else "partial_rotary_factor",
            f"got {shape.rope_share:g}; expected a share from 0 to 1",
        )
    if fields.flag("is_encoder_decoder", False) or fields.flag("add_cross_attention", False):
        key = "add_cross_attention" if fields.flag("add_cross_attention", False) else "is_encoder_decoder"
        raise fields.error(key, "got true; only decoder-only models are supported")
