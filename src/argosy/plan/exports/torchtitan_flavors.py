"""The models that torchtitan 0.3.0 comes with, by their sizes, and the one that a shape is.

Read from `torchtitan/models/*/__init__.py` of that version. It knows no plan.
"""

from dataclasses import asdict, dataclass

from argosy.contracts.errors import BadInputError
from argosy.model.shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """One of a module's models.

    experts: experts, those that a token visits, width of one, width of what all tokens visit; empty in a dense model.
    dense_layers: layers in front that have none. latent: ranks of queries and of keys and values, and the parts of a
    head without positions, with them, and of values; empty without latent attention.
    """

    module: str
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    tied: bool = False
    experts: tuple[int, ...] = ()
    dense_layers: int = 0
    latent: tuple[int | None, ...] = ()


def _llama(name: str, layers: int, hidden: int, heads: int, feed_forward: int, *, tied: bool = False) -> Flavor:
    return Flavor(
        module="llama3",
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=8,
        head_dim=hidden // heads,
        feed_forward=feed_forward,
        vocabulary=128256,
        tied=tied,
    )


def _qwen(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    feed_forward: int,
    *,
    kv_heads: int = 8,
    tied: bool = False,
    experts: tuple[int, ...] = (),
) -> Flavor:
    return Flavor(
        module="qwen3",
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        feed_forward=feed_forward,
        vocabulary=151936,
        tied=tied,
        experts=experts,
    )


FLAVORS = (
    _llama("1B", 16, 2048, 32, 8192, tied=True),
    _llama("3B", 28, 3072, 24, 8192, tied=True),
    _llama("8B", 32, 4096, 32, 14336),
    _llama("70B", 80, 8192, 64, 28672),
    _llama("405B", 126, 16384, 128, 53248),
    _qwen("0.6B", 28, 1024, 16, 3072, tied=True),
    _qwen("1.7B", 28, 2048, 16, 6144, tied=True),
    _qwen("4B", 36, 2560, 32, 9728, tied=True),
    _qwen("8B", 36, 4096, 32, 12288),
    _qwen("14B", 40, 5120, 40, 17408),
    _qwen("32B", 64, 5120, 64, 25600),
    _qwen("30B-A3B", 48, 2048, 32, 0, kv_heads=4, experts=(128, 8, 768, 0)),
    _qwen("235B-A22B", 94, 4096, 64, 0, kv_heads=4, experts=(128, 8, 1536, 0)),
    Flavor(
        module="deepseek_v3",
        name="671B",
        layers=61,
        hidden=7168,
        heads=128,
        kv_heads=128,
        head_dim=192,
        feed_forward=18432,
        vocabulary=129280,
        experts=(256, 8, 2048, 2048),
        dense_layers=3,
        latent=(1536, 512, 128, 64, 128),
    ),
)
"""Those of the families that shapes are read from; torchtitan's small ones for debugging are left out."""

MODULES = {"llama": "llama3", "qwen3": "qwen3", "qwen3_moe": "qwen3", "deepseek_v3": "deepseek_v3"}
"""A shape's family -> the module of torchtitan that has it."""


def find_flavor(shape: ModelShape) -> Flavor:
    """Find the model of torchtitan that has a shape's sizes; raises BadInputError with the nearest and what differs."""
    known = [flavor for flavor in FLAVORS if flavor.module == MODULES.get(shape.family)]
    if not known or shape.qkv_bias:
        has = ", ".join(sorted(MODULES))
        raise BadInputError(f"torchtitan 0.3.0 has no model of the family of {shape.name}; of ours it has {has}")
    wanted = _sizes(shape)
    nearest = min(known, key=lambda flavor: len(_differences(flavor, wanted)))
    if odd := _differences(nearest, wanted):
        shown = ", ".join(f"{name} {getattr(nearest, name)} and not {value}" for name, value in odd.items())
        raise BadInputError(
            f"torchtitan 0.3.0 has no model of the sizes of {shape.name}; the nearest, {nearest.module} "
            f"{nearest.name}, has {shown}"
        )
    return nearest


def _differences(flavor: Flavor, wanted: dict[str, object]) -> dict[str, object]:
    found = asdict(flavor)
    return {name: value for name, value in wanted.items() if found[name] != value}


def _sizes(shape: ModelShape) -> dict[str, object]:
    experts, latent = shape.experts, shape.latent
    dense = shape.num_layers if experts is None else experts.layers.index(True)
    sizes: dict[str, object] = {
        "layers": shape.num_layers,
        "hidden": shape.hidden_size,
        "heads": shape.num_heads,
        "kv_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "vocabulary": shape.vocab_size,
        "tied": shape.tied_embeddings,
        "experts": (experts.count, experts.per_token, experts.intermediate_size, experts.shared_size)
        if experts
        else (),
        "latent": (latent.query_rank, latent.key_value_rank, latent.plain_dim, latent.rope_dim, latent.value_dim)
        if latent
        else (),
        "dense_layers": 0 if experts is None else dense,
    }
    return sizes if not dense else sizes | {"feed_forward": shape.intermediate_size}
