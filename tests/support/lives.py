"""Simulated lives judged in processes of their own."""

from argosy.simulate.soak import live

EVENTS_MIN, FAULTS_MIN, KINDS_MIN = 2_000, 20, 5


def judged(seed: int) -> str:
    """Live one seed and say what was wrong with it, empty if nothing was."""
    try:
        life = live(seed)
    except Exception as error:
        return f"seed {seed}: {type(error).__name__}: {error}"
    faults = sum(life.faults.values())
    if life.broken:
        return f"seed {seed}: {life.broken[0]}"
    if life.events < EVENTS_MIN or faults < FAULTS_MIN or len(life.faults) < KINDS_MIN:
        return f"seed {seed}: only {life.events} events, {faults} faults of {len(life.faults)} kinds"
    return ""
