"""Who printed a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.health.origins import is_host, origin_of_path, read_head

WATCHDOG = "[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught"


class TestReadHead:
    @pytest.mark.parametrize(
        ("line", "rank", "local_rank", "host", "program"),
        [
            ("[rank3]: boom", 3, None, "", ""),
            ("[default3]: boom", None, 3, "", ""),
            ("  3: boom", 3, None, "", ""),
            ("12: [rank12]: boom", 12, None, "", ""),
            ("[1,3]<stderr>:boom", 3, None, "", ""),
            ("[3]<stdout>: boom", 3, None, "", ""),
            ("node-a:2101:2177 [5] boom", None, 5, "node-a", ""),
            ("[node-a:12345] boom", None, None, "node-a", ""),
            ("[1796047331.208123] [node-a:911:0] boom", None, None, "node-a", ""),
            ("Nov 30 14:02:11 r7n3 kernel: [12345.678901] boom", None, None, "r7n3", "kernel"),
            ("2026-11-30T14:02:11+0000 r7n3 slurmd[311]: boom", None, None, "r7n3", "slurmd"),
            ("2026-11-30T14:02:11.208123456Z stderr F [rank3]: boom", 3, None, "", ""),
            ("[pod/trainer-0/pytorch] 2026-11-30T14:02:11Z boom", None, None, "trainer-0", "pytorch"),
            ("trainer-0  | boom", None, None, "trainer-0", ""),
            ("(Worker pid=123, ip=10.0.0.5) boom", None, None, "10.0.0.5", "Worker"),
            ("node-a: boom", None, None, "node-a", ""),
            ("c122-021: [198542.853543] boom", None, None, "c122-021", ""),
            ("bigmem2: [rank1]: boom", 1, None, "bigmem2", ""),
            ("[lab-g06] boom", None, None, "lab-g06", ""),
            ("r4-n11 nic counters over 60 s: boom", None, None, "r4-n11", "nic"),
            ("<3>[12345.678901] boom", None, None, "", ""),
            ("kern  :err   : [Mon Nov 30 14:02:11 2026] boom", None, None, "", ""),
        ],
    )
    def test_prefixes_are_taken_off(
        self, line: str, rank: int | None, local_rank: int | None, host: str, program: str
    ) -> None:
        """Each launcher's and collector's prefix tells who printed, and goes."""
        head = read_head(line)
        found = head.origin
        assert head.text == "boom"
        assert (found.rank, found.local_rank, found.host, found.program) == (rank, local_rank, host, program)

    @pytest.mark.parametrize(
        "line",
        [
            "[rank3]:[E1130 14:02:11.208123456 ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught",
            "[rank3]:[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught",
            "3: 2026-11-30T14:02:11Z [E1130 14:02:11.2 ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught",
            "[E1130 14:02:11.2 ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught",
        ],
    )
    def test_glog_heads_become_one(self, line: str) -> None:
        """However c10d's head is dressed, the text is the same and the rank known."""
        assert (read_head(line).text, read_head(line).origin.rank) == (WATCHDOG, 3)

    @pytest.mark.parametrize(
        ("line", "rank"),
        [("rank 0: GPU utilization 100%", 0), ("(rank 8) RuntimeError: Gloo", 8), ("[Rank 5] Watchdog caught", 5)],
    )
    def test_a_rank_that_opens_the_message_speaks(self, line: str, rank: int) -> None:
        """A message that begins with a rank is that rank's, and keeps its words."""
        assert (read_head(line).text, read_head(line).origin.rank) == (line, rank)

    @pytest.mark.parametrize(
        "line",
        [
            *("train.py: error", "RuntimeError: x", "nvidia-smi: Driver Version", "mlx5_0: port error", "dmesg: DMAR"),
            *(
                "[train.py:12] x",
                "[launch.py] Killing",
                "{6}[Hardware Error]  x",
                "ERROR: x",
                "{not json",
                "eth0: down",
            ),
        ],
    )
    def test_the_message_is_not_mistaken_for_a_prefix(self, line: str) -> None:
        """Programs, devices and files at the start of a message stay, and are no hosts."""
        assert (read_head(line).text, read_head(line).origin.host) == (line, "")

    def test_levels_are_no_hosts(self) -> None:
        """A logger's level behind a time is not a host."""
        assert read_head("2026-11-30 14:02:11,208 ERROR torch: x").origin.host == ""

    @pytest.mark.parametrize("words", ["Ignored exception: x", "on_exception hook: x", "absorbed fault: x"])
    def test_words_before_a_colon_are_no_host_and_program(self, words: str) -> None:
        """Behind a time an odd name is a host only where a machine's own program, or a process's number, follows."""
        assert read_head(f"2026-11-30T15:00:05Z {words}").text == words
        assert read_head("2026-11-30T15:00:05Z bigmem sshd[7]: x").origin.host == "bigmem"
        assert read_head("2026-11-30T15:00:05Z bigmem kernel: x").origin.host == "bigmem"

    def test_a_level_may_stand_before_the_time(self) -> None:
        """The time is found behind a level, which stays."""
        head = read_head("INFO 11-30 14:02:11 [engine.py:1] x")
        assert head.text == "INFO [engine.py:1] x"
        assert head.stamp is not None

    def test_the_time_that_says_most_counts(self) -> None:
        """Of two times in a line, the one with its zone and year is taken."""
        head = read_head("2026-11-30T14:02:11.5Z [W1130 22:02:11.2 x.cpp:1] x")
        assert head.stamp is not None
        assert head.stamp.zoned

    def test_docker_and_the_journal_write_json(self) -> None:
        """Lines that are JSON objects give message, time, host and program."""
        docker = read_head('{"log":"[rank3]: boom\\n","stream":"stderr","time":"2026-11-30T14:02:11.2Z"}')
        assert (docker.text, docker.origin.rank, docker.stamp is not None) == ("boom", 3, True)
        journal = read_head(
            '{"__REALTIME_TIMESTAMP":"1796047331208123","_HOSTNAME":"r7n3","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"x"}'
        )
        assert (journal.text, journal.origin.host, journal.origin.program) == ("x", "r7n3", "kernel")
        assert journal.stamp is not None
        assert journal.stamp.us == 1_796_047_331_208_123

    @pytest.mark.parametrize(
        "line", ["{}", "[]", '{"msg": 3}', '{"log": "x", "time": {}}', '{"rank": true, "msg": "x"}', "{" * 9999]
    )
    def test_odd_json_is_text(self, line: str) -> None:
        """JSON of other shapes is read as text, or not at all, and never fails."""
        assert read_head(line).origin.rank is None

    @given(st.text(max_size=80))
    def test_any_line_is_read(self, line: str) -> None:
        """No line makes the reader fail, and it never adds to one."""
        assert len(read_head(line).text) <= len(line) + 1


class TestOriginOfPath:
    @pytest.mark.parametrize(
        ("path", "rank", "local_rank", "host"),
        [
            ("logs/node-17/rank_3.log", 3, None, "node-17"),
            ("rank3.txt", 3, None, ""),
            ("log_rank3", 3, None, ""),
            ("node01_rank5.err", 5, None, "node01"),
            ("node-17.dmesg", None, None, "node-17"),
            ("dmesg-node-17.txt", None, None, "node-17"),
            ("r7n3-dmesg.log", None, None, "r7n3"),
            ("journal.north-1.txt", None, None, "north-1"),
            ("local_rank0/stderr.log", None, 0, ""),
            ("job/attempt_0/3/stderr.log", None, 3, ""),
            ("gpu-29/out.log", None, None, "gpu-29"),
            ("gpu_3.log", None, 3, ""),
            ("device-0/plog.log", None, 0, ""),
            ("var/log/pods/ns_trainer-0_uid/pytorch/0.log", None, None, "trainer-0"),
            ("10.0.20.160.log", None, None, "10.0.20.160"),
            ("slurm-4021_task_7.out", 7, None, ""),
        ],
    )
    def test_names_tell_rank_and_host(self, path: str, rank: int | None, local_rank: int | None, host: str) -> None:
        """File and folder names tell who wrote."""
        found = origin_of_path(path)
        assert (found.rank, found.local_rank, found.host) == (rank, local_rank, host)

    @pytest.mark.parametrize(
        "path", ["dmesg.txt", "syslog.1", "kern.log", "slurm-123.out", "llama-8b/log.txt", "step100.log", ""]
    )
    def test_other_names_tell_nothing(self, path: str) -> None:
        """Job numbers, models and steps are neither ranks nor hosts."""
        found = origin_of_path(path)
        assert (found.rank, found.local_rank, found.host) == (None, None, "")


class TestIsHost:
    def test_hosts_have_numbers_or_letters_of_order(self) -> None:
        """Names that count hosts are hosts, with or without a domain; files, devices and programs aren't."""
        assert all(map(is_host, ("node-17", "gpu-29", "trainer-0", "node-a", "node17.cluster.local", "10.0.0.5")))
        assert not any(map(is_host, ("train.py", "mlx5_0", "cuda", "python3", "nvidia-smi", "eth0", "Error", "")))


class TestLongNames:
    def test_a_name_without_end_is_read_at_its_end(self) -> None:
        """A file in an archive may have a name of a megabyte; folders near the file tell whose it is."""
        origin = origin_of_path("a" * 300_000 + "/node-17/rank_3.log")
        assert (origin.host, origin.rank) == ("node-17", 3)
