"""Weights in Hugging Face's safetensors layout, in and out.

Knows the names and shapes of the decoder's parameters; nothing of plans, ranks or optimizers. Pickled files are never
read.
"""
