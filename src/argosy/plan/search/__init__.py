"""Which plans are worth timing, which is best, and what none could beat.

Estimates choose, the timeline decides. Must not know screens.
"""
