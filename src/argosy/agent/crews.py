"""The crew for each kind of job."""

from argosy.agent.commands import CommandCrew
from argosy.agent.crew import Crew
from argosy.agent.folder import AttemptFolder, Task
from argosy.agent.training import TrainCrew
from argosy.contracts.talk import StartRun


def make_crew(folder: AttemptFolder, task: Task) -> Crew:
    """Make the crew that a task's order needs."""
    order = task.order
    return CommandCrew(folder, task, order) if isinstance(order, StartRun) else TrainCrew(folder, task, order)
