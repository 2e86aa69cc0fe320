"""Gavel's rules as the benchmark counts them, on small and on made traces, and waiting beside FIFO with backfill."""

import pytest

from argosy.contracts.errors import BadInputError

FAST_AND_SLOW = {"fast": {("A", 1): 4.0, ("A", 2): 6.0}, "slow": {("A", 1): 1.0, ("A", 2): 0.0}}


@pytest.fixture(scope="module")
def traces(benchmark):
    """Give the benchmark."""
    return benchmark("scheduler_traces")


def rows_of(benchmark, *jobs):
    """Rows of (hours on the fast chip, chips, arrival in seconds)."""
    row = benchmark("gavel_traces").Row
    return [
        row(
            job_type="A",
            steps=hours * 3600 * FAST_AND_SLOW["fast"]["A", chips],
            chips=chips,
            priority=1,
            arrival_s=at_s,
        )
        for hours, chips, at_s in jobs
    ]


class TestRules:
    @pytest.mark.slow
    def test_one_job_takes_what_it_takes(self, benchmark, traces):
        """Alone, a job of an hour ends after an hour, under every policy."""
        rows = rows_of(benchmark, (1.0, 1, 0.0))
        for policy in traces.POLICIES:
            run = traces.run_trace("t", rows, FAST_AND_SLOW, {"fast": 1, "slow": 1}, policy, "gavel")
            assert (run.jct_mean_h, run.starts_per_job) == (1.0, 1.0)

    def test_a_chip_that_falls_free_waits_for_the_round_in_gavels_rules(self, benchmark, traces):
        """While others run, a chip whose job ended idles to the end of the round of 0.1 h; in production not."""
        rows = rows_of(benchmark, (1.0, 1, 0.0), (0.05, 1, 0.0), (0.05, 1, 0.0))
        gavel, ours = (traces.run_trace("t", rows, FAST_AND_SLOW, {"fast": 2}, "fifo", r) for r in traces.RULES)
        minute = 1 / 60
        assert gavel.jct_mean_h == pytest.approx((1.0 + 0.05 + 0.15) / 3, abs=1e-3)
        assert ours.jct_mean_h == pytest.approx((1.0 + 0.05 + 0.10 + 4 * minute) / 3, abs=1e-3)

    @pytest.mark.slow
    def test_the_bound_is_never_beaten(self, benchmark, traces):
        """No policy ends all jobs before the linear program says it can be."""
        rates = {"v100": FAST_AND_SLOW["fast"], "slow": FAST_AND_SLOW["slow"]}
        made = benchmark("gavel_traces").make_trace(3, 6, rates, hours=(0.1, 0.8))
        for policy in traces.POLICIES:
            run = traces.run_trace("t", made, rates, {"v100": 2, "slow": 3}, policy, "gavel")
            assert run.makespan_h >= run.lp_bound_h - 1e-3

    def test_a_trace_written_is_the_trace_read(self, benchmark, tmp_path):
        """Making, writing and reading a trace gives it back."""
        gavel = benchmark("gavel_traces")
        rows = gavel.make_trace(1, 20, {"v100": FAST_AND_SLOW["fast"]}, gap_s=100.0)
        path = tmp_path / "made.trace"
        path.write_text(gavel.write_trace(rows))
        again = gavel.read_trace(path)
        assert [(r.job_type, r.steps, r.chips) for r in again] == [(r.job_type, r.steps, r.chips) for r in rows]

    def test_a_broken_trace_is_named_by_line(self, benchmark, traces, tmp_path):
        """A line that is no job, a chip nobody measured and a job that nothing runs are told."""
        path = tmp_path / "bad.trace"
        path.write_text("A\t1\n")
        with pytest.raises(BadInputError, match=r"bad.trace:1: 2 columns"):
            benchmark("gavel_traces").read_trace(path)
        with pytest.raises(BadInputError, match="such as v100=8"):
            traces.read_chips("v100:8")
        with pytest.raises(BadInputError, match="none of 4 slow runs A on 2 chips"):
            traces.runnable(rows_of(benchmark, (1.0, 2, 0.0)), FAST_AND_SLOW, {"slow": 4})

    @pytest.mark.parametrize("text", ["v100=8,v100=2", "v100=\u00b2", "v100=0", "v100=", "=8", "v100=99999999999", ""])
    def test_chips_that_cannot_be_counted_are_named(self, traces, text):
        """A kind that is there twice or has no name, or a count that nobody has, is an error that shows the text."""
        with pytest.raises(BadInputError, match=f"--chips {text}: "):
            traces.read_chips(text)

    @pytest.mark.parametrize(
        "text", ["", "\n\n", "A\t-\t-\t-\t1\tnan\t1\t1\t-1\t0\n", "A\t-\t-\t-\t1\t0.0004\t1\t1\t-1\t0\n"]
    )
    def test_a_trace_of_nothing_is_named(self, benchmark, tmp_path, text):
        """An empty file, steps without an end, and a job of no whole step are told with the file's name."""
        path = tmp_path / "odd.trace"
        path.write_text(text)
        with pytest.raises(BadInputError, match=r"odd.trace"):
            benchmark("gavel_traces").read_trace(path)

    @pytest.mark.parametrize(
        ("cells", "said"),
        [
            ("1e300\t1\t1\t-1\t0", "steps must be 1,000,000,000,000 at most"),
            ("1\t1e9\t1\t-1\t0", "chips must be"),
            ("1\t1\t-1e30\t-1\t0", "priority must be"),
            ("1\t1\t1\t-1\t1e300", "arrival must be"),
        ],
    )
    def test_numbers_nobody_can_count_with_are_named_by_line(self, benchmark, tmp_path, cells, said):
        """They got as far as the clock or the core, and failed there without a line."""
        path = tmp_path / "huge.trace"
        path.write_text(f"A\t-\t-\t-\t1\t{cells}\n")
        with pytest.raises(BadInputError, match=f"huge.trace:1: {said}"):
            benchmark("gavel_traces").read_trace(path)

    def test_throughputs_that_are_not_there_are_named(self, benchmark, tmp_path):
        """The error says how to have them."""
        with pytest.raises(BadInputError, match="set ARGOSY_REFERENCE_DATA"):
            benchmark("gavel_traces").read_rates(tmp_path / "none.json")

    def test_a_bound_counts_from_the_clock_s_start_like_the_end(self, benchmark, traces):
        """Jobs that all come after an hour cannot end before it; the bound said so, and lay far below."""
        rows = rows_of(benchmark, (1.0, 1, 3600.0), (1.0, 1, 3600.0))
        run = traces.run_trace("t", rows, FAST_AND_SLOW, {"fast": 2}, "fifo", "gavel")
        assert (run.lp_bound_h, run.makespan_h) == (2.0, 2.0)

    @pytest.mark.parametrize(
        "text", ["", "[1]", '{"fast": 1}', '{"fast": {"A": {"null": 1}}}', '{"fast": {"(1,": {}}}']
    )
    def test_throughputs_of_another_format_are_named(self, benchmark, tmp_path, text):
        """Text that is no table of throughputs is told with the file's name."""
        path = tmp_path / "odd.json"
        path.write_text(text)
        with pytest.raises(BadInputError, match=r"odd.json: no throughputs"):
            benchmark("gavel_traces").read_rates(path)

    @pytest.mark.parametrize("policy", ["fifo_perf", "fifo", "shortest_remaining", "fair", "makespan"])
    def test_a_trace_whose_last_job_takes_a_moment_ends(self, benchmark, traces, policy):
        """A pass that falls due after the last end waited under `fifo_perf` for a job to come or end, for ever."""
        run = traces.run_trace("t", rows_of(benchmark, (1e-6, 1, 0.0)), FAST_AND_SLOW, {"fast": 1}, policy, "gavel")
        assert (run.jobs, run.makespan_h) == (1, 0.0)

    def test_jobs_that_no_chip_runs_are_left_out_and_counted(self, benchmark, traces):
        """One job wants more chips than there are; the others run, and the figure says that one is missing."""
        rows = rows_of(benchmark, (1.0, 1, 0.0), (1.0, 2, 0.0))
        run = traces.run_trace("t", rows, FAST_AND_SLOW, {"fast": 1}, "fifo", "gavel")
        assert (run.jobs, run.left_out, run.makespan_h) == (1, 1, 1.0)


GAVEL_FIGURES = {"static_100": (25.2, 11.18), "continuous_96": (20.1, 5.42)}
"""What Gavel's own simulator gives for `fifo_perf`: makespan and mean time, in hours."""


@pytest.fixture
def lived(benchmark, traces, reference_data):
    """Give a function that runs one of Gavel's traces by its rules."""
    folder = reference_data / "scheduler" / "gavel"
    gavel = benchmark("gavel_traces")
    rates = gavel.read_rates(folder / "simulation_throughputs.json.gz")

    def run(trace, policy):
        rows = gavel.read_trace(folder / f"{trace}.trace")
        return traces.run_trace(trace, rows, rates, traces.PHYSICAL, policy, "gavel")

    return run


@pytest.fixture
def told(repository):
    """Give a function that looks up a row of docs/schedulers.md: makespan and mean time in hours."""
    lines = (repository / "docs" / "schedulers.md").read_text("utf-8").splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    table = {(row[0], row[2]): (float(row[3]), float(row[4])) for row in rows if row[1:2] == ["gavel"]}
    return lambda trace, policy: table[trace, policy]


@pytest.mark.reference
@pytest.mark.slow
class TestReference:
    @pytest.mark.parametrize("trace", GAVEL_FIGURES)
    def test_gavels_baseline_is_reproduced(self, lived, told, trace):
        """`fifo_perf` gives the makespan and mean time of Gavel's simulator within 5 %, and what the page says."""
        run = lived(trace, "fifo_perf")
        assert (run.makespan_h, run.jct_mean_h) == pytest.approx(GAVEL_FIGURES[trace], rel=0.05)
        assert (run.makespan_h, run.jct_mean_h) == pytest.approx(told(trace, "fifo_perf"), rel=0.01)

    @pytest.mark.parametrize(
        ("trace", "policy", "most_h"),
        [
            ("static_100", "shortest_remaining", 7.8),
            ("continuous_96", "shortest_remaining", 3.6),
            ("continuous_96", "fair", 4.1),
        ],
    )
    def test_mean_times_are_below_gavels_best(self, lived, told, trace, policy, most_h):
        """Gavel's best mean is 9.74 h on the trace whose jobs all come at once, and 4.06 h on the other."""
        run = lived(trace, policy)
        assert run.jct_mean_h <= most_h
        assert (run.makespan_h, run.jct_mean_h) == pytest.approx(told(trace, policy), rel=0.01)

    def test_the_whole_batch_ends_near_the_bound(self, lived, told):
        """Under `makespan` all jobs have ended by 18.0 h; no order can end them before the linear program's 17.71 h."""
        run = lived("static_100", "makespan")
        assert run.lp_bound_h == pytest.approx(17.71, abs=0.01)
        assert run.lp_bound_h <= run.makespan_h <= 18.0
        assert run.makespan_h == pytest.approx(told("static_100", "makespan")[0], rel=0.01)


class TestKalos:
    def test_backfill_passes_only_whom_it_does_not_delay(self, benchmark):
        """Behind a gang that waits, a job that ends before it can start goes first, one that would not does not."""
        kalos = benchmark("scheduler_kalos")
        shapes = [(3, 100.0, 0.0), (4, 50.0, 1.0), (1, 90.0, 2.0), (1, 200.0, 3.0)]
        gangs = [kalos.Gang(nodes=n, run_s=s, limit_s=s, arrival_s=at_s) for n, s, at_s in shapes]
        assert kalos.fifo_with_backfill(gangs, 4) == [0.0, 100.0, 2.0, 150.0]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "no two jobs"),
            ("a,b\n1,2\n", "odd.csv:2: KeyError"),
            ("gpu_workers,gpu_per_worker,num_iteration,arrival_time\n1,8,10,0\n1,8,10,0\n", "no two jobs"),
            ("gpu_workers,gpu_per_worker,num_iteration,arrival_time\n1,8,10,0\n1,8,nan,5\n", "odd.csv:3: GPUs"),
            ("gpu_workers,gpu_per_worker,num_iteration,arrival_time\nx,8,10,0\n", "odd.csv:2: ValueError"),
        ],
    )
    def test_a_trace_of_another_kind_is_named(self, benchmark, tmp_path, text, said):
        """A file without jobs, with other columns, or with nonsense in them is told with its line."""
        path = tmp_path / "odd.csv"
        path.write_text(text)
        with pytest.raises(BadInputError, match=said):
            benchmark("scheduler_kalos").read_gangs(path, 4, 0.9, 0)

    @pytest.mark.parametrize("arguments", [["--load", "0"], ["--load", "nan"], ["--nodes", "10000000"]])
    def test_a_load_or_fleet_that_cannot_be_is_refused(self, benchmark, monkeypatch, capsys, arguments):
        """It divided by nothing, or never came back."""
        monkeypatch.setattr("sys.argv", ["scheduler_kalos.py", *arguments])
        with pytest.raises(SystemExit):
            benchmark("scheduler_kalos").main()
        assert "--load from 0.01 to 10" in capsys.readouterr().err

    @pytest.mark.reference
    @pytest.mark.slow
    @pytest.mark.parametrize(("nodes", "load"), [(256, 0.6), (256, 0.9), (256, 1.1), (128, 0.6), (300, 0.6)])
    def test_no_gang_starves(self, benchmark, reference_data, nodes, load):
        """The longest wait is within three times the p99 of FIFO with backfill, on other fleets and loads as well."""
        kalos = benchmark("scheduler_kalos")
        gangs = kalos.read_gangs(reference_data / "scheduler" / "acme_kalos_converted.csv", nodes, load, 0)
        fifo, core = kalos.compare(gangs, nodes, ["best_effort"])
        assert core.wait_max_h <= 3 * fifo.wait_p99_h
