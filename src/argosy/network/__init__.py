"""What wires do: how long bytes take from one place to another.

Arithmetic alone; this room knows no socket and no clock, only the times that it is told.
"""
