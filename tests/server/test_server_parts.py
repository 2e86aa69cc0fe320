"""The small parts of the server: joining, tokens, reading jobs, orders of a gang, books, its folder."""

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.event import AttemptEnded
from argosy.contracts.job import RunJob
from argosy.contracts.run_file import read_any_job
from argosy.contracts.talk import ChipsFound, HostFacts, StartRun
from argosy.server.books import job_lines
from argosy.server.ground import joined, seat, without
from argosy.server.intake import take
from argosy.server.jobs import Intake
from argosy.server.launching import Brief, Wanted, muster
from argosy.server.models import Submission
from argosy.server.orders import Orders
from argosy.server.place import Card, default_folder, is_used, listen, read_card, take_lock, url_of, write_card
from argosy.server.process import serve
from argosy.server.process_options import Options
from argosy.server.store import Store
from argosy.server.tokens import holder_of, issue, revoke
from support.serving import RUN_JOB, SKILLS, ground, turns, wait


def facts(chip: str = "chip-a", count: int = 2, site: str = "") -> HostFacts:
    """Describe a host."""
    return HostFacts(hostname="my host", boot_id="b", site=site, chips=(ChipsFound(chip=chip, count=count),))


class TestSeat:
    def test_a_free_node_that_fits_is_given(self) -> None:
        """The first of the fleet whose chips the host has."""
        assert seat(ground(), facts(), "", {"north-1"}).node.name == "north-2"

    def test_a_wish_is_granted_or_refused_with_the_reason(self) -> None:
        """Another's node, or one of other chips, is refused by name."""
        assert seat(ground(), facts(), "north-2", ()).node.name == "north-2"
        with pytest.raises(BadInputError, match="node north-1 has another agent"):
            seat(ground(), facts(), "north-1", {"north-1"})
        with pytest.raises(BadInputError, match="the fleet says 2 chip-a, my host has 1 chip-a"):
            seat(ground(), facts(count=1), "north-1", ())

    def test_a_host_beyond_the_fleet_makes_a_node(self) -> None:
        """It is named after its host, joins the class of like nodes, or begins one."""
        like = seat(ground(nodes=1), facts(), "", {"north-1"})
        assert (like.node.name, like.node.chip_class, like.new) == ("my-host", "north/chip-a", True)
        assert like.ground.classes[0].nodes == 2
        other = seat(ground(nodes=1), facts(count=8, site="south"), "", {"north-1"})
        assert (other.node.site, other.node.chip_class, other.node.chips) == ("south", "south/chip-a", 8)

    def test_names_are_not_given_twice(self) -> None:
        """Also not those of nodes that left for good."""
        grown = seat(ground(nodes=1), facts(), "", {"north-1"}).ground
        again = seat(grown, facts(), "", {"north-1", "my-host"})
        assert again.node.name == "my-host-2"
        assert seat(without(grown, {"my-host"}), facts(), "", {"north-1"}).node.name == "my-host-2"

    @pytest.mark.parametrize(
        ("host", "text"),
        [
            (facts(chip="chip-b"), "no chip chip-b in the server's catalogue; nearest: chip-a"),
            (HostFacts(hostname="h", boot_id="b"), "h reports no chips"),
        ],
    )
    def test_what_can_be_no_node_is_refused(self, host: HostFacts, text: str) -> None:
        """A chip that the catalogue lacks, and a host without chips."""
        with pytest.raises(BadInputError, match=text):
            seat(ground(nodes=1), host, "", {"north-1"})

    def test_emulated_chips_run_anywhere(self) -> None:
        """A host needs none of them."""
        fleet = ground(nodes=1)
        played = replace(fleet, classes=(replace(fleet.classes[0], emulated=True),))
        assert seat(played, HostFacts(hostname="h", boot_id="b"), "north-1", ()).node.name == "north-1"

    def test_real_chips_are_a_class_beside_emulated_ones(self) -> None:
        """A host whose kind and site a class of emulated chips has leaves that class and its nodes as they are."""
        fleet = ground(nodes=2)
        played = replace(fleet, classes=(replace(fleet.classes[0], emulated=True),))
        grown = seat(played, facts(count=4), "extra", ()).ground
        assert {each.name: (each.nodes, each.chips_per_node, each.emulated) for each in grown.classes} == {
            "north/chip-a": (2, 2, True),
            "north/chip-a/4x": (1, 4, False),
        }
        assert without(grown, {"extra"}).classes == played.classes

    def test_hosts_that_joined_are_there_after_a_restart(self) -> None:
        """Under the names that they had."""
        assert set(joined(ground(nodes=1), [("my-host", facts())]).nodes) == {"north-1", "my-host"}


class TestTokens:
    def test_a_secret_opens_until_it_is_revoked(self, tmp_path: Path) -> None:
        """It is kept as a hash alone."""
        store = Store(tmp_path / "s")
        made = issue("mary", "user", 1)
        store.commit((), [made.statement])
        found = holder_of(store, made.secret)
        assert found is not None
        assert (found.name, found.is_admin) == ("mary", False)
        assert made.secret not in str(store.read("SELECT * FROM token"))
        store.commit((), [revoke(made.id, 2)])
        assert holder_of(store, made.secret) is None

    @pytest.mark.parametrize("secret", ["", "x", "y" * 10_000])
    def test_others_open_nothing(self, tmp_path: Path, secret: str) -> None:
        """Empty, unknown and very long ones."""
        assert holder_of(Store(tmp_path / "s"), secret) is None

    @pytest.mark.parametrize(("owner", "role"), [("", "user"), ("a\nb", "user"), ("m" * 64, "user"), ("m", "boss")])
    def test_bad_owners_and_roles_are_refused(self, owner: str, role: str) -> None:
        """The error says what is allowed."""
        with pytest.raises(BadInputError, match="write"):
            issue(owner, role, 1)


TRAIN = """kind: train
name: t
model: tiny
data: {files: "d/*.txt", tokenizer: bytes}
train: {sequence_length: 64, global_batch_size: 8, steps: 10}
chips: {min: 1, max: 4}
checkpoint: {to: ck}
"""


class TestIntake:
    def test_a_claim_says_what_the_job_asks(self) -> None:
        """Kind, owner, limit in microseconds, and restarts of its own code."""
        text = RUN_JOB.format(nodes=1) + "time_limit: 2m\nrestarts: 3\npriority: 5\n"
        claim = take(Submission(document=text), "mary", 1).claim
        assert (claim.kind, claim.owner, claim.time_limit_us) == ("run", "mary", 120_000_000)
        assert (claim.user_retries, claim.priority) == (3, 5)

    def test_a_training_job_is_elastic_if_it_saves(self) -> None:
        """Without checkpoints another size would lose what was done."""
        assert take(Submission(document=TRAIN), "", 1).claim.elastic
        without_saving = TRAIN.replace("checkpoint: {to: ck}\n", "")
        assert not take(Submission(document=without_saving), "", 1).claim.elastic

    def test_paths_are_the_submitters(self) -> None:
        """Relative ones lie in the folder that came along; absolute ones stay."""
        job: Any = take(Submission(document=TRAIN, folder="/home/mary"), "", 1).job
        assert job.data.files == ("/home/mary/d/*.txt",)
        assert job.checkpoint.to == "/home/mary/ck"
        assert job.data.tokenizer == "bytes"

    @pytest.mark.parametrize(
        ("more", "text"),
        [
            ({"folder": "home"}, "folder: got 'home'; write an absolute path"),
            ({"settings": ["objective={deadline: 2020-01-01}"]}, "deadline: 2020-01-01 has passed"),
            ({"settings": ["train.step=5"]}, "did you mean steps?"),
        ],
    )
    def test_mistakes_are_told(self, more: dict[str, Any], text: str) -> None:
        """Before anything is logged."""
        with pytest.raises(BadInputError, match=text.replace("?", "\\?")):
            take(Submission(document=TRAIN, **more), "", 2 * 10**15)

    def test_a_folder_of_an_upload_stays_within_it(self) -> None:
        """It is no folder of the submitter's; without an upload it is."""
        text = "kind: run\ncommand: ls\nworking_directory: src\n"
        told = [
            take(Submission(document=text + more, folder="/home/mary"), "", 1).job for more in ("upload: code\n", "")
        ]
        assert [job.run.working_directory for job in told if isinstance(job, RunJob)] == ["src", "/home/mary/src"]
        with pytest.raises(BadInputError, match="within what is uploaded"):
            take(Submission(document=text.replace("src", "../out") + "upload: code\n"), "", 1)


class TestMuster:
    @pytest.mark.parametrize(("processes", "ranks"), [("launcher", [1, 1]), ("chips", [2, 2]), ("3", [3, 3])])
    def test_processes_are_numbered_node_by_node(self, processes: str, ranks: list[int]) -> None:
        """A launcher a node, one process a chip, or a number."""
        job = read_any_job(RUN_JOB.format(nodes=2) + f"processes_per_node: {processes}\n", "j")
        fleet = ground()
        wanted = Wanted(attempt="j.1", generation=1, job="j", option="north/chip-a", size=0, nodes=tuple(fleet.nodes))
        found = muster(wanted, Brief(job=job, config="", bundle="b", offerings=()), fleet)
        orders = [found.start(node, 3, None) for node in found.order]
        assert [order.gang.ranks for order in orders] == ranks
        assert [order.gang.first_rank for order in orders] == [0, ranks[0]]
        assert {order.gang.world_size for order in orders} == {sum(ranks)}
        assert all(isinstance(order, StartRun) and (order.term, order.bundle) == (3, "b") for order in orders)

    def test_a_node_that_left_is_told(self) -> None:
        """It can't be mustered."""
        wanted = Wanted(attempt="j.1", generation=1, job="j", option="o", size=0, nodes=("gone-1",))
        job = read_any_job(RUN_JOB.format(nodes=1), "j")
        with pytest.raises(BadInputError, match="node gone-1 is not in the fleet any more"):
            muster(wanted, Brief(job=job, config="", bundle="", offerings=()), ground())


class TestOrders:
    @pytest.mark.parametrize(("state", "sent"), [("preparing", [AttemptEnded]), ("running", [])])
    def test_orders_that_fail_end_only_what_starts(self, tmp_path: Path, state: str, sent: list[Any]) -> None:
        """A new server works out those of running attempts, too: these go on without, and it is tried again later."""
        told: list[Any] = []
        asked: list[int] = []

        def ask(question: Any) -> "Future[bool]":
            answer: Future[bool] = Future()
            answer.set_result(question(SimpleNamespace(jobs={"job-1": SimpleNamespace(state=state)})))
            return answer

        loop: Any = SimpleNamespace(ask=ask, send=lambda kind, **_fields: told.append(kind))
        workers: Any = SimpleNamespace(submit=lambda work, *words: (asked.append(1), work(*words)))
        orders = Orders(Store(tmp_path / "s"), loop, ground, workers, lambda _nodes: None)
        wanted = Wanted(attempt="job-1.1", generation=1, job="job-1", option="o", size=0, nodes=("north-1",))
        orders.muster(wanted)
        orders.muster(wanted)
        assert (told, asked) == (sent, [1])


class TestBooks:
    def test_a_long_story_keeps_its_end(self, tmp_path: Path) -> None:
        """The newest lines that name a job, oldest first."""
        store = Store(tmp_path / "s")
        store.commit([(number, b"job-1 %d" % number) for number in range(1, 5)])
        assert job_lines(store, "job-1", 2) == [b"job-1 3", b"job-1 4"]


class TestKeys:
    def test_requests_with_one_key_take_turns(self, tmp_path: Path, monkeypatch: Any) -> None:
        """However many wait, and whenever they come."""

        async def story() -> None:
            nothing: Any = None
            intake = Intake(Store(tmp_path / "s"), nothing, tmp_path, lambda _m, text: text, chips=tuple, to_plan=int)
            there, most, gates = [0], [0], [asyncio.Event() for _ in range(3)]
            waiting = iter(gates)

            async def slowly(*_words: Any) -> str:
                there[0] += 1
                most[0] = max(most[0], there[0])
                await next(waiting).wait()
                there[0] -= 1
                return "job-1"

            monkeypatch.setattr(intake, "_submit", slowly)
            ask = Submission(document=TRAIN)
            tasks = [asyncio.ensure_future(intake.submit(ask, "m", "key")) for _ in range(2)]
            await turns()
            gates[0].set()
            await tasks[0]
            tasks.append(asyncio.ensure_future(intake.submit(ask, "m", "key")))
            await turns()
            for gate in gates:
                gate.set()
            await asyncio.gather(*tasks)
            assert most == [1]
            assert len(intake._keys) == 0

        wait(story())


class TestProcess:
    def test_what_fails_after_the_start_ends_the_server(self, tmp_path: Path, monkeypatch: Any) -> None:
        """It is told, not lost."""
        monkeypatch.setenv("ARGOSY_JOIN_TOKEN", "")

        def ready(_url: str) -> None:
            raise InfrastructureError("nobody to tell")

        options = Options(
            folder=tmp_path / "f",
            host="127.0.0.1",
            port=0,
            ground=ground(),
            skills=SKILLS,
            policy=None,
            retire_missing=False,
            restored=False,
            agents=(),
            owner="root",
            ready=ready,
        )
        with pytest.raises(InfrastructureError, match="nobody to tell"):
            serve(options)


class TestPlace:
    def test_one_server_uses_a_folder(self, tmp_path: Path) -> None:
        """The second is told; the lock goes with its holder."""
        with take_lock(tmp_path):
            assert is_used(tmp_path)
            with pytest.raises(InfrastructureError, match="a server runs in"):
                take_lock(tmp_path)
        assert not is_used(tmp_path)
        assert not is_used(tmp_path / "nowhere")

    def test_a_card_tells_where_a_server_is(self, tmp_path: Path) -> None:
        """Only its owner reads it; one that is no card counts as none."""
        assert read_card(tmp_path) is None
        write_card(tmp_path, Card(url="http://h:1", pid=7))
        assert read_card(tmp_path) == Card(url="http://h:1", pid=7)
        assert (tmp_path / "server.json").stat().st_mode & 0o777 == 0o600
        (tmp_path / "server.json").write_text("{")
        assert read_card(tmp_path) is None

    def test_addresses_are_told(self) -> None:
        """A taken port is told as such, an address of another machine too."""
        with listen("127.0.0.1", 0) as listener:
            port = listener.getsockname()[1]
            assert url_of(listener) == f"http://127.0.0.1:{port}"
            with pytest.raises(Exception, match=f"can't listen at 127.0.0.1:{port}"):
                listen("127.0.0.1", port)
        with pytest.raises(BadInputError, match="no address of this machine"):
            listen("192.0.2.1", 0)

    def test_the_folder_is_named_by_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """$ARGOSY_STATE, else where a user's state belongs."""
        monkeypatch.setenv("ARGOSY_STATE", "/a")
        assert default_folder() == Path("/a")
        monkeypatch.delenv("ARGOSY_STATE")
        monkeypatch.setenv("XDG_STATE_HOME", "/b")
        assert default_folder() == Path("/b/argosy/server")
