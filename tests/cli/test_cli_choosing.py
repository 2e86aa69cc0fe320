"""From inputs to the plan that runs, and what is refused on the way."""

from dataclasses import replace
from pathlib import Path

import pytest

from argosy.cli.choosing import choose, chosen_first
from argosy.cli.inputs import read_inputs
from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.plan import Plan
from support.runs import Workspace


def save(workspace: Workspace, plan: Plan) -> str:
    """Write a plan to a file; give its name."""
    workspace.write("plan.json", encode(plan).decode())
    return "plan.json"


class TestPlanner:
    def test_the_best_plan_is_bound(self, workspace: Workspace) -> None:
        """Without a wish the planner's best plan is taken and every rank has a node."""
        choice = choose(workspace.inputs())
        assert {place.node for place in choice.plan.placement} == {"north-1", "south-1"}
        assert choice.plan.emulated
        assert not choice.from_file

    def test_another_by_number(self, workspace: Workspace) -> None:
        """`--plan 2` runs the second plan, and the others stay as alternatives."""
        inputs = workspace.inputs()
        first, second = choose(inputs), choose(inputs, "2")
        assert second.plans[0] == first.plans[1]
        assert set(second.plans) == set(first.plans)

    def test_a_number_too_high(self) -> None:
        """A number that no plan has is refused with how many there are."""
        with pytest.raises(BadInputError, match="--plan 3: there are plans 1 to 0"):
            chosen_first((), 3)

    def test_untrainable_model(self, workspace: Workspace) -> None:
        """A model that the trainer can't run is refused by name, with the job file."""
        with pytest.raises(BadInputError, match=r"^job\.yaml: model: gpt2.*family gpt2"):
            choose(workspace.inputs("model=gpt2"))

    def test_never_fits(self, workspace: Workspace) -> None:
        """A model that is too large says what it needs and what there is."""
        with pytest.raises(NeverFitsError, match=r"llama-3-8b does not fit.*has 1"):
            choose(workspace.inputs("model=llama-3-8b"))


class TestPlanFile:
    def test_round_trip(self, workspace: Workspace) -> None:
        """A plan.json that a run wrote runs again, the same."""
        inputs = workspace.inputs()
        plan = choose(inputs).plan
        again = choose(inputs, save(workspace, plan))
        assert again.plan == plan
        assert again.from_file

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"model": "demo"}, "model is 'demo', the job says 'tiny'"),
            ({"sequence_length": 64}, "sequence_length is 64, the job says 32"),
            ({"global_batch_size": 16}, "global_batch_size is 16, the job says 8"),
            ({"version": 7}, "version 7"),
        ],
    )
    def test_another_jobs_plan(self, change: dict[str, object], text: str, workspace: Workspace) -> None:
        """A plan that was made for another job is refused, naming file, field and both values."""
        inputs = workspace.inputs()
        name = save(workspace, replace(choose(inputs).plan, **change))
        with pytest.raises(BadInputError, match=rf"^plan\.json: .*{text}"):
            choose(inputs, name)

    def test_unknown_keys(self, workspace: Workspace) -> None:
        """A key that a plan doesn't have is refused with its place and the nearest name, not passed over."""
        inputs = workspace.inputs()
        text = encode(choose(inputs).plan).decode().replace('"schedule"', '"schedul"')
        workspace.write("plan.json", text)
        with pytest.raises(BadInputError, match=r"^plan\.json: schedul: unknown key; did you mean schedule\?"):
            choose(inputs, "plan.json")

    def test_unknown_chips(self, workspace: Workspace) -> None:
        """A plan for chips that the fleet doesn't have is refused with those it has."""
        inputs = workspace.inputs()
        text = encode(choose(inputs).plan).decode().replace("north/h800-sxm", "west/h20")
        workspace.write("plan.json", text)
        with pytest.raises(BadInputError, match=r"uses chips 'west/h20'; fleet\.yaml has north/h800-sxm"):
            choose(inputs, "plan.json")

    @pytest.mark.parametrize(("text", "match"), [("{}", "plan.json: not a Plan"), ("", "not a Plan")])
    def test_not_a_plan(self, text: str, match: str, workspace: Workspace) -> None:
        """A file that holds no plan is refused by name."""
        workspace.write("plan.json", text)
        with pytest.raises(BadInputError, match=match):
            choose(workspace.inputs(), "plan.json")

    def test_absent(self, workspace: Workspace) -> None:
        """A plan file that isn't there is refused with what to give."""
        with pytest.raises(BadInputError, match=r"no such plan file.*argosy plan"):
            choose(workspace.inputs(), "nothing.json")


class TestHere:
    def test_this_machine(self, workspace: Workspace) -> None:
        """Real CPU chips of one node run here, and are not emulated."""
        fleet = "fleet: mine\nsites: {here: {}}\nnodes:\n  - {site: here, chip: cpu, chips_per_node: 2, count: 1}\n"
        workspace.write("mine.yaml", fleet)
        assert not choose(workspace.inputs(fleet="mine.yaml")).plan.emulated

    @pytest.mark.parametrize(
        ("north", "south", "text"),
        [
            ("h800-sxm", "h800-sxm", "runs on 2 machines"),
            ("cpu", "cpu, emulate: {tflops: 0.05, memory_gb: 1}", "mixes emulated chips with real ones"),
        ],
    )
    def test_what_cannot_run_here(self, north: str, south: str, text: str, workspace: Workspace) -> None:
        """Several real machines, and real beside emulated chips, are refused by name."""
        fleet = (
            "fleet: two\nsites: {north: {}, south: {}}\n"
            "long_links: [{between: [north, south], km: 1, gbps: 100}]\nnodes:\n"
            f"  - {{site: north, chips_per_node: 1, count: 1, nics: 1x100G, chip: {north}}}\n"
            f"  - {{site: south, chips_per_node: 1, count: 1, nics: 1x100G, chip: {south}}}\n"
        )
        workspace.write("two.yaml", fleet)
        with pytest.raises(BadInputError, match=rf"^two\.yaml: .*{text}"):
            choose(workspace.inputs("chips={min: 2}", fleet="two.yaml"))

    def test_absent_chips(self, workspace: Workspace) -> None:
        """Chips that this machine doesn't have are refused with those that it has."""
        group = "{site: north, chip: ascend-910b3, chips_per_node: 1, count: 1}"
        workspace.write("one.yaml", f"fleet: one\nsites: {{north: {{}}}}\nnodes:\n  - {group}\n")
        with pytest.raises(BadInputError, match=r"^one\.yaml: the plan runs on ascend-910b3, this machine has .*cpu"):
            choose(workspace.inputs("train.precision=bf16", fleet="one.yaml"))


class TestDefaults:
    def test_the_fleet_is_this_machine(self, workspace: Workspace) -> None:
        """Without a fleet file the job is for this machine."""
        inputs = read_inputs(Path("job.yaml"), (), None)
        assert inputs.fleet_source == "this machine"
        assert inputs.classes
