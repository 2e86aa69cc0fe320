"""From text files to batches of tokens: `prepare` builds a token set once, `TokenSet` reads it on every rank.

Knows nothing of models, plans or process groups, and imports no torch.
"""
