"""Which replicas, how many of each and how many micro-batches, by annealing on exact times; with a proven bound.

Plans from measured tables alone. Must not know fleets, models nor files.
"""
