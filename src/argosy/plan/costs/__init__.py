"""What work, memory and wires cost on a class of chips: measured profiles first, then a roofline with fitted curves.

Must not know pipelines nor how plans are searched for.
"""
