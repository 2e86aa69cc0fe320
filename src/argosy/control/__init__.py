"""The core: what to do next, as one deterministic state machine.

`core.step(state, event)` is all that drives it. Imports contracts only; no clock, file, thread or unseeded chance.
"""
