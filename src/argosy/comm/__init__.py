"""Process groups of one generation, the exchange of gradients across replicas, and the emulated clock.

What torch.distributed offers, arranged by a Plan. Knows nothing of models, files or jobs.
"""
