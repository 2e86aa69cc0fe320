"""The same core on a simulated fleet: a clock that jumps, messages that get lost, machines that die, one seed."""
