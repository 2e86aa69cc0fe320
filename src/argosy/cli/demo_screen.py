"""The screen of `argosy demo`: a line for each thing, figures at the end.

Shows what it is told, like the screen of `argosy train`, in fewer words.
"""

from argosy.cli.choosing import Choice
from argosy.cli.ended import Ended
from argosy.cli.inputs import Inputs
from argosy.cli.run_texts import data_text
from argosy.cli.train_screen import TrainScreen
from argosy.contracts.plan import Plan, Replica
from argosy.plan.telling.explain import time_text
from argosy.train.data.prepare import TokenSetInfo


class DemoScreen(TrainScreen):
    """The screen of `argosy demo`: a line for each thing, figures at the end."""

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Say what the demo is; the plan is shown once the data is."""
        self.expect(inputs, choice)
        kinds = len({chip_class.chip.name for chip_class in inputs.classes})
        km = inputs.fleet.long_links[0].km
        self.console.print(
            f"argosy demo: {len(inputs.nodes)} emulated nodes in {len(inputs.fleet.sites)} sites {km:g} km apart, "
            f"{kinds} chip kinds, on this machine's CPU. Times marked ~ are emulated.",
            soft_wrap=True,
        )
        self._plan_text = plan_text(choice.plan)

    def prepared(self, info: TokenSetInfo) -> None:
        """Show the data, then the plan."""
        self.data_status.show(data_text(info, "the Python standard library's source, "), final=True)
        self.say("plan", self._plan_text)
        self.starting()

    def ended(self, ended: Ended) -> None:
        """Show the figures, and the ones that matter in a line."""
        super().ended(ended)
        if ended.lines and ended.error is None:
            self.say("done", done_text(ended))


def plan_text(plan: Plan) -> str:
    """Write a small plan in one line."""
    replicas = "; ".join(replica_text(replica) for replica in plan.replicas)
    told = plan.prediction
    step = f"   predicted ~{time_text(told.step_ms)} a step" if told else ""
    return f"{len(plan.replicas)} replica{'' if len(plan.replicas) == 1 else 's'}: {replicas}{step}"


def replica_text(replica: Replica) -> str:
    """Write one replica: sites, stages, layers, micro-batches."""
    sites = "+".join(dict.fromkeys(stage.chip_class.split("/")[0] for stage in replica.stages))
    layers = "+".join(str(stage.end_layer - stage.first_layer) for stage in replica.stages)
    stages = f"{len(replica.stages)} stage{'s' if len(replica.stages) > 1 else ''}"
    tp = f" TP {replica.stages[0].tp}," if replica.stages[0].tp > 1 else ""
    batches = f"{replica.microbatches} micro-batch{'' if replica.microbatches == 1 else 'es'}"
    return f"{sites}{tp} {stages} {layers} layers x {batches}"


def done_text(ended: Ended) -> str:
    """Write what was reached in one line."""
    step = ended.lines[0]
    parts = [f"measured {step.measured} a step (predicted {step.predicted}, {step.difference})"]
    parts += [f"{line.what.split(':')[0]} {line.measured}" for line in ended.lines if line.what in ended.headlines]
    return "   ".join(parts)
