"""How one replica lies over chips: layouts, exact cuts of its layers, and the templates that come of them.

Must not know how many replicas there are, nor what is asked for.
"""
