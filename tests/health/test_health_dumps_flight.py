"""Reading Flight Recorder dumps of several backends and versions, with and without groups, whole and damaged."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.health import dumps_flight, groups
from argosy.health.dumps_flight import KEPT, looks_like_flight, rank_of, read_flight
from argosy.health.locate import locate


def entry(sequence: int, **fields: object) -> dict[str, object]:
    """Make one entry as torch 2.13 writes it for gloo."""
    usual = {
        "record_id": sequence,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "is_p2p": False,
        "profiling_name": "gloo:all_reduce",
        "time_created_ns": 1_796_071_064_930_245_375,
        "input_sizes": [[10, 2]],
        "input_dtypes": ["Float"],
        "output_sizes": [[10, 2]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": True,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
    }
    return usual | fields


def nccl(sequence: int, state: str, **fields: object) -> dict[str, object]:
    """Make one entry as NCCL has it."""
    return entry(sequence, **({"profiling_name": "nccl:all_reduce", "state": state} | fields))


def dump(*entries: dict[str, object], **fields: object) -> bytes:
    """Make a dump's pickle."""
    return pickle.dumps({"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": list(entries), **fields}, 2)


GROUP = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}


class TestGloo:
    def test_retired_is_done(self):
        """Gloo never says completed: what is retired is done, what is not is open."""
        (group,) = read_flight("rank_3.pkl", dump(entry(1), entry(2, retired=False))).groups
        assert (group.enqueued, group.finished, group.description) == (2, 1, "default_pg")
        assert group.collectives[0].words == "all-reduce of 20 Float"

    def test_what_failed_is_not_done(self):
        """A collective that broke off is retired, too; the group's count of completed ones tells."""
        status = {"0": {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 1}}
        (group,) = read_flight("rank_3", dump(entry(1), entry(2), pg_status=status)).groups
        assert group.finished == 1

    def test_json_is_the_same(self):
        """The JSON form, with its numbers as texts in the status, is read like the pickle."""
        status = {"0": {"last_completed_collective": "1"}}
        text = json.dumps({"version": "2.10", "pg_config": {}, "pg_status": status, "entries": [entry(1), entry(2)]})
        (group,) = read_flight("rank_3.json", text.encode()).groups
        assert (group.enqueued, group.finished) == (2, 1)

    def test_no_entries_is_no_group(self):
        """A rank that has done nothing yet has a dump without entries."""
        empty = json.dumps({"version": "2.10", "pg_config": {"": {"desc": "", "name": "", "ranks": "[]"}}})
        assert read_flight("rank_0", empty.encode()).groups == ()

    def test_dumps_without_groups_name_the_culprit(self):
        """With an empty `pg_config`, gloo's dumps still name who never entered."""
        traces = [
            read_flight(f"rank_{n}", dump(entry(1), *([] if n == 2 else [entry(2, retired=False)]))) for n in range(4)
        ]
        assert [each.culprit.name for each in locate(traces)] == ["rank 2"]


class TestNccl:
    def test_members_come_from_the_groups(self):
        """`pg_config` tells the members; groups of one name and other members get other identities."""
        (group,) = read_flight("rank_0", dump(nccl(1, "completed"), pg_config=GROUP)).groups
        assert (group.group, group.members, group.finished) == ("0/0-3/4", (0, 1, 2, 3), 1)

    def test_members_are_one_object_for_all_ranks(self):
        """Equal lists of members are read once, so that many dumps share them."""
        groups = [read_flight(f"rank_{n}", dump(nccl(1, "completed"), pg_config=GROUP)).groups[0] for n in range(2)]
        assert groups[0].members is groups[1].members

    def test_retired_is_not_done(self):
        """NCCL's watchdog retires what timed out: only completed is done."""
        (group,) = read_flight("rank_0", dump(nccl(1, "completed"), nccl(2, "scheduled"))).groups
        assert (group.enqueued, group.finished, group.starts_known) == (2, 1, False)

    def test_a_device_that_started_is_told(self):
        """Where timing is on, started kernels are known, and what is only scheduled has not begun."""
        (group,) = read_flight("rank_0", dump(nccl(1, "started"), nccl(2, "scheduled"))).groups
        assert (group.started, group.enqueued, group.starts_known) == (1, 2, True)

    def test_messages_have_a_peer(self):
        """A message's ends are places in the group; the peer is a global rank."""
        config = {"7": {"name": "7", "desc": "pp", "ranks": "[4, 12, 20]"}}
        receive = nccl(1, "started", profiling_name="nccl:recv 1<-0", is_p2p=True, process_group=["7", "pp"])
        (group,) = read_flight("rank_12", dump(receive, pg_config=config)).groups
        assert (group.messages[0].operation, group.messages[0].peer, group.collectives) == ("receive", 4, ())

    def test_a_batch_tells_for_its_messages(self):
        """Messages of a batch stay `scheduled`; the batch's own entry says that they are done."""
        parts = [
            nccl(0, "scheduled", profiling_name=f"nccl:{a}", is_p2p=True, p2p_seq_id=5)
            for a in ("send 0->1", "recv 0<-1")
        ]
        whole = nccl(0, "completed", profiling_name="nccl:coalesced", is_p2p=True, p2p_seq_id=5)
        (group,) = read_flight("rank_0", dump(*parts, whole, pg_config=GROUP)).groups
        assert group.messages == ()

    def test_sizes_that_may_differ_are_not_compared(self):
        """All-to-all and scatter put in what they like."""
        uneven = nccl(1, "started", profiling_name="nccl:all_to_all")
        assert read_flight("rank_0", dump(uneven)).groups[0].collectives[0].size == -1

    @pytest.mark.parametrize("name", ["_all_gather_base", "all_gather_into_tensor_coalesced", "ALLGATHER_coalesced"])
    def test_names_of_one_operation_are_one(self, name):
        """Torch calls one operation by several names."""
        made = dump(nccl(1, "started", profiling_name=f"nccl:{name}"))
        assert read_flight("rank_0", made).groups[0].collectives[0].operation == "all_gather"


class TestLong:
    def test_of_many_finished_entries_the_last_are_read(self):
        """A full buffer is read from its end; an old entry that is still open is not missed."""
        done = [nccl(n, "completed") for n in range(2, 1_000)]
        (group,) = read_flight("rank_0", dump(nccl(1, "scheduled"), *done)).groups
        assert (group.enqueued, group.finished, len(group.collectives)) == (999, 0, KEPT + 1)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "rank"),
        [
            ("nccl_trace_rank_12", 12),
            ("tmp/trace-7.pickle", 7),
            ("node3/rank_5.json", 5),
            ("rank-4/dump", 4),
            ("fr.2", 2),
            ("job20261130/rank17.pkl", 17),
        ],
    )
    def test_the_rank_is_in_the_name(self, name, rank):
        """The usual names tell the rank."""
        assert rank_of(name) == rank

    def test_a_name_without_a_rank_is_an_error(self):
        """Without a number, the user is told how to name the file."""
        with pytest.raises(BadInputError, match="name the file rank_N"):
            read_flight("dump.pkl", dump())


class TestDamage:
    def test_another_version_is_refused(self):
        """A dump of another major version is named."""
        with pytest.raises(BadInputError, match=r"version 3\.0; 2\.x can be read"):
            read_flight("rank_0", dump(version="3.0"))

    @pytest.mark.parametrize(
        "data", [b"\x80\x02]q\x00.", b'{"entries": [', b'{"entries": "x", "version": 2}', b"\x80\x02"]
    )
    def test_what_is_no_dump_is_a_clear_error(self, data):
        """A list, cut JSON and an empty pickle are errors that name the file."""
        with pytest.raises(BadInputError, match=r"^rank_0: "):
            read_flight("rank_0", data)

    @pytest.mark.slow
    @given(
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        st.sampled_from(sorted(entry(1))),
        st.sampled_from(["entries", "pg_config", "pg_status", ""]),
    )
    def test_fields_of_any_kind_are_survived(self, value, name, top):
        """Whatever stands in a field, the dump is read as far as it makes sense, and can be located."""
        made = {"version": "2.10", "pg_config": GROUP, "pg_status": {"0": value}, "entries": [entry(1) | {name: value}]}
        data = pickle.dumps(made | ({top: value} if top else {}), 4)
        locate([read_flight(f"rank_{n}", data) for n in range(2)])

    def test_a_dump_is_known_by_its_content(self):
        """Pickles and JSON with entries are dumps; other pickles and JSON are not."""
        assert looks_like_flight(dump(entry(1)))
        assert looks_like_flight(b'{"comm_lib_version":"","entries":[]}')
        assert not looks_like_flight(pickle.dumps({"weights": 1}))
        assert not looks_like_flight(b'{"model": "llama"}')


def unretired(sequence: int, **fields: object) -> dict[str, object]:
    """Make an entry as older recorders write it, which don't tell what is over."""
    return {key: value for key, value in entry(sequence, **fields).items() if key not in ("retired", "op_id")}


class TestUntoldEnds:
    def test_who_stayed_behind_is_named(self):
        """Where nothing tells what is finished, a rank that others passed is late, and not all `entered number 1`."""
        dumps = [
            read_flight(f"rank_{n}", dump(*map(unretired, range(1, 7 if n == 2 else 8)), pg_config=GROUP))
            for n in range(4)
        ]
        (finding,) = locate(dumps)
        assert (finding.fault_class, finding.culprit.name) == ("process.hang", "rank 2")

    def test_the_last_is_open_where_all_came_as_far(self):
        """If all are at the same number, they are in that one, not in the first."""
        dumps = [read_flight(f"rank_{n}", dump(*map(unretired, range(1, 8)), pg_config=GROUP)) for n in range(4)]
        (finding,) = locate(dumps)
        assert "number 7" in finding.evidence[0].text

    def test_the_status_tells_where_it_is_there(self):
        """`pg_status` counts what ended well."""
        data = dump(*map(unretired, range(1, 5)), pg_status={"0": {"last_completed_collective": 3}})
        (group,) = read_flight("rank_0", data).groups
        assert group.finished == 3

    def test_a_status_that_lags_is_caught_up(self):
        """What is retired and was followed by another had ended well, whatever the status says yet."""
        data = dump(
            *map(entry, range(1, 6)), entry(6, retired=False), pg_status={"0": {"last_completed_collective": 3}}
        )
        (group,) = read_flight("rank_0", data).groups
        assert group.finished == 5


class TestHostile:
    def test_values_that_grow_without_end_are_not_written_out(self):
        """A list of lists of lists, each the same one twice, is no version, name or number."""
        bomb: list[object] = ["x"]
        for _ in range(60):
            bomb = [bomb, bomb]
        fields = {"pg_id": bomb, "process_group": [bomb, bomb], "profiling_name": bomb, "input_dtypes": [bomb]}
        trace = read_flight("rank_0", dump(entry(1, **fields), pg_config={"0": {"ranks": bomb, "desc": bomb}}))
        assert trace.rank == 0

    def test_json_of_more_pieces_than_any_recorder_writes_is_not_unpacked(self, monkeypatch):
        """Three bytes of JSON take twenty times that in memory, so they are counted first."""
        monkeypatch.setattr(dumps_flight, "PIECES_MAX", 100)
        data = b'{"version": "2.10", "entries": [' + b"{}," * 100 + b"{}]}"
        with pytest.raises(BadInputError, match="JSON of 204 pieces; no Flight Recorder writes over 100"):
            read_flight("rank_0.json", data)

    def test_one_list_of_ranks_named_for_many_groups_is_bounded(self):
        """A pickle may name one list a million times; a dump of kilobytes would be read for hours."""
        ranks = list(range(100_000))
        config = {str(group): {"ranks": ranks, "desc": ""} for group in range(200)}
        with pytest.raises(BadInputError, match="lists more members of groups than any job has"):
            read_flight("rank_0.pkl", dump(entry(1), pg_config=config))

    def test_one_entry_named_many_times_is_bounded(self, monkeypatch):
        """The last entries count; more than any recorder holds are not looked at."""
        monkeypatch.setattr(dumps_flight, "ENTRIES_MAX", 10)
        (group,) = read_flight("rank_0.pkl", dump(*map(entry, range(1, 31)))).groups
        assert [each.sequence for each in group.collectives] == list(range(21, 31))

    def test_members_of_all_groups_together_are_bounded(self, monkeypatch):
        """Silent members are seated one by one, so many groups of one long list are refused before."""
        monkeypatch.setattr(groups, "SEATS_MAX", 10)
        config = {str(group): {"ranks": "0,1,2,3", "desc": ""} for group in range(4)}
        with pytest.raises(BadInputError, match="over 10 members together"):
            locate([read_flight("rank_0.pkl", dump(entry(1), pg_config=config))])
