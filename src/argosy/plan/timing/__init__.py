"""When every piece of a plan's work begins and ends: legality, schedules, the timeline and its pictures.

Must not know how a plan was found.
"""
