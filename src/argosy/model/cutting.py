"""What of a model tensor parallelism can't cut evenly, and to how many rows a vocabulary is padded so that it can.

Frameworks differ in two points alone: some pad the vocabulary, some give ranks that share a head of keys a copy of it.
It knows no framework by name.
"""

from argosy.model.shape import ModelShape


def uncut(shape: ModelShape, tp: int, *, pads_vocabulary: bool = False, copies_keys: bool = False) -> dict[str, int]:
    """Give the sizes of a model, by the names they have in configurations, that a TP degree does not divide.

    pads_vocabulary: the vocabulary is padded to what it divides. copies_keys: a degree that is a multiple of the heads
    of keys will do too, for ranks then hold copies. Latent attention has keys for every head; only layers that there
    are count, so that the width of a dense MLP is no matter where all layers have experts.
    """
    sizes = {"num_attention_heads": shape.num_heads}
    if shape.latent is None and not (copies_keys and tp % shape.num_kv_heads == 0):
        sizes["num_key_value_heads"] = shape.num_kv_heads
    if not all(shape.has_experts(layer) for layer in range(shape.num_layers)):
        sizes["intermediate_size"] = shape.intermediate_size
    if shape.experts is not None:
        sizes["moe_intermediate_size"] = shape.experts.intermediate_size
        sizes["shared_expert_intermediate_size"] = shape.experts.shared_size
    if not pads_vocabulary:
        sizes["vocab_size"] = shape.vocab_size
    return {name: size for name, size in sizes.items() if size % tp}


def padded_vocabulary(vocab_size: int, multiple: int, tp: int) -> int:
    """Give the rows of a vocabulary that is padded to a multiple of `multiple` x TP; as they are where that is 0.

    As Megatron-LM does with `--make-vocab-size-divisible-by` (megatron/training/vocab_utils.py).

    >>> padded_vocabulary(50257, 128, 8), padded_vocabulary(50257, 0, 1)
    (51200, 50257)
    """
    return -(-vocab_size // (multiple * tp)) * multiple * tp if multiple else vocab_size
