"""What there is: the chip catalogue, `fleet.yaml`, the classes that the planner plans over, and what this machine has.

Imports the contracts alone. Knows no job, no plan and no network.
"""
