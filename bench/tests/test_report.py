import contextlib
import io
import json
import shutil
import tempfile
import unittest
from pathlib import Path

from bench.measure.scenarios import BY_NAME
from bench.report import collect, own, page, peers, seeds, summary, theme
from bench.report.__main__ import main
from bench.report.charts import charts, specifications
from bench.report.results import Results

HERE = Path(__file__).parent


class Report(unittest.TestCase):
    def setUp(self):
        self.results = Results.load(HERE / "results")

    def test_the_ratio_decides_who_is_first(self):
        text = summary.standing(self.results)
        self.assertIn("Nobody here is ahead of Windlass in**: drain", text)
        self.assertIn("* **single enqueue, 10 clients**: BullMQ (fsync every second) is 1.88x as fast as Windlass.", text)
        for record in self.results.records:  # the same page, were Windlass slower
            if record["system"] == "windlass" and record["scenario"] == "drain":
                record["figures"] = {"completed_per_second": 4_000}
        self.assertIn("Graphile Worker is 11x as fast", summary.standing(self.results))

    def test_goals_are_held_against_the_bar(self):
        goals = {what: (reached, holds) for what, _, reached, holds in summary.goals(self.results)}
        self.assertEqual(goals["drain no-op jobs, tuned, 1 process: against the best tuned PostgreSQL job queue"], ("18x (Graphile Worker)", True))
        redis = next(each for what, each in goals.items() if "Redis" in what)
        self.assertEqual(redis, ("0.66x (BullMQ (fsync every second))", True))

    def test_events_are_no_job_queue(self):
        self.assertEqual(self.results.best("drain")[0], "graphile-worker")
        self.assertEqual(self.results.compare("drain")[1][0], "pgq")

    def test_seconds_in_and_out_are_added_before_they_are_held_against_the_limit(self):
        rows = {what: (most, ours, part) for what, most, ours, part in own.limit(self.results)}
        most, ours, part = rows[own.IN_AND_OUT]
        self.assertAlmostEqual(ours, 1 / (1 / 6e5 + 1 / 8e5))
        self.assertAlmostEqual(part, ours / most)
        self.assertEqual(rows["rows written / jobs enqueued"], (900_000, 600_000, 600_000 / 900_000))
        self.assertEqual(own.limit(self.results, "SQLite"), [])

    def test_a_limited_queue_is_held_against_its_limit_or_against_none(self):
        def run(point, **figures):
            figures = {"completed_per_second": 950, "unlimited_per_second": 1_000, "of_unlimited_percent": 95.04} | figures
            return {"store": "PostgreSQL 18", "bench": "limited", "scenario": "limited", "point": point, "figures": figures}

        results = Results({"runs": [run("no-op"), run("rate", of_allowed_percent=99.96)]}, {}, {})
        text = own.sweeps(results)
        for cell in ("950 jobs/s (95.0 % of no limit)", "950 jobs/s (100.0 % of the limit)"):
            self.assertIn(cell, text)

    def test_the_page_names_what_was_not_measured(self):
        text = page.page(self.results, charts(self.results))
        for line in ("Celery: not installed: no package index", "held: Redis has no snapshots", "PgQ, latency, round 1: exit code 1: one job is missing: 17"):
            self.assertIn(line, text)
        self.assertNotIn("None", text)

    def test_a_quick_look_says_so(self):
        self.assertFalse(page.quick(self.results))
        self.results.records[0]["scale"] = 0.1
        self.assertTrue(page.quick(self.results))

    def test_without_any_peer_and_without_ours_the_page_is_still_one(self):
        for part in (Results({}, {}, {}), Results({"runs": self.results.own}, {}, {})):
            self.assertIn("not measured", page.page(part, charts(part)))

    def test_both_themes_of_every_chart_have_the_same_data(self):
        drawn = specifications(self.results)
        self.assertEqual(sorted(drawn), sorted(f"{name}-{each}" for name in ("drain", "held", "latency", "scaling") for each in ("dark", "light")))
        self.assertEqual(drawn["drain-light"]["data"], drawn["drain-dark"]["data"])
        self.assertEqual([row["system"] for row in drawn["drain-light"]["data"]["values"]], ["Windlass", "PgQ, events", "Graphile Worker", "BullMQ (fsync every second)"])
        json.dumps(drawn, allow_nan=False)

    def test_labels_keep_apart_and_near_their_values(self):
        placed = theme.apart([1.0, 1.1, 1.05, 9.0], 1.0)
        self.assertEqual(placed[3], 9.0)
        low, middle, high = sorted(placed[:3])
        self.assertAlmostEqual(middle - low, 1.0)
        self.assertAlmostEqual(high - middle, 1.0)
        self.assertLess(placed[0], placed[2], "in the order of their values")


class Seeds(unittest.TestCase):
    def test_every_row_can_be_looked_up(self):
        for seed in seeds.SEEDS:
            for row in seed["rows"]:
                self.assertTrue("own" in row or "scenario" in row, row["what"])
                self.assertFalse(row["here"] and "scenario" not in row, row["what"])
                rate = "per_second" in row["figure"] and "seconds_for" not in row
                self.assertEqual(rate, row.get("more_is_better", True), row["what"])

    def test_a_row_has_all_three_figures_and_the_right_way_round(self):
        seed = next(each for each in seeds.SEEDS if each["title"].startswith("Graphile"))
        results = Results.load(HERE / "results")
        rows = {each["what"]: seeds.row(results, seed, each) for each in seed["rows"]}
        self.assertEqual(rows["latency, average"][1:6], ["Graphile Worker 4.28 ms", "1.85 ms", "0.61 ms", "7.0x", "3.0x"])
        self.assertEqual(rows["drain 200,000 trivial jobs, with batching"][2:6], ["45.0k jobs/s", "800k jobs/s", "4.4x", "18x"])

    def test_seconds_for_a_million_follow_from_the_rate_of_three(self):
        run = {"bench": "drain", "store": "PostgreSQL 15", "scenario": "s", "settings": {"jobs": 3_000_000}, "figures": {"completed_per_second": 500_000, "completed_seconds": 6}}
        each = {"figure": "completed_per_second", "seconds_for": 1_000_000, "own": {"scenario": "s"}}
        self.assertEqual(seeds.own(Results({"runs": [run]}, {}, {}), each), 2)
        self.assertIsNone(seeds.own(Results({}, {}, {}), each))


class Collect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def test_a_store_that_was_temporary_leaves_no_trace(self):
        run = {"bench": "drain", "command": "windlass-bench drain --store postgres://a@127.0.0.1:5/b --jobs 3", "place": "/tmp/x", "store": "PostgreSQL 15", "settings": {}, "figures": {}}
        (self.root / "windlass").mkdir()
        (self.root / "windlass/one.json").write_text(json.dumps(run))
        collect.collect(self.root, self.root / "results")
        text = (self.root / "results/windlass.json").read_text()
        self.assertEqual(json.loads(text)["runs"][0]["command"], "windlass-bench drain --jobs 3")
        self.assertNotIn("/tmp/x", text)

    def test_scenarios_that_were_not_run_again_stay_and_those_that_were_say_when(self):
        def run(scenario, rate, day):
            about = {"title": "Q", "kind": "queue", "language": "C", "tuning": "", "server": "postgres", "durability": "fsync"}
            at = {"system": "q", "scenario": scenario, "round": 1, "status": "ok", "scale": 1.0, "at": f"{day}T00:00:00Z"}
            path = self.root / f"peers/runs/{scenario}/q-1.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(about | at | {"figures": {"completed_per_second": rate}, "measured": {}}))

        def collected():
            collect.collect(self.root, self.root / "results")
            return {run["scenario"]: (run["figures"]["completed_per_second"], run.get("date")) for run in Results.load(self.root / "results").records}

        run("drain", 100, "2026-01-01"), run("work-10", 10, "2026-01-01")
        (self.root / "peers/about.json").write_text(json.dumps({"machine": {"date": "2026-01-01"}, "left_out": {"q": {"latency": "none"}}}))
        self.assertEqual(collected(), {"drain": (100, None), "work-10": (10, None)})
        shutil.rmtree(self.root / "peers/runs")
        run("drain", 200, "2026-02-02")
        (self.root / "peers/about.json").write_text(json.dumps({"machine": {"date": "2026-02-02"}, "left_out": {"q": {"mixed": "no"}}}))
        self.assertEqual(collected(), {"drain": (200, "2026-02-02"), "work-10": (10, None)})
        results = Results.load(self.root / "results")
        self.assertEqual((results.machine["date"], results.about["left_out"]), ("2026-01-01", {"q": {"latency": "none", "mixed": "no"}}))
        self.assertIn("Measured by itself on 2026-02-02.", peers.scenario_table(results, BY_NAME["drain"]))
        self.assertNotIn("Measured by itself", peers.scenario_table(results, BY_NAME["work-10"]))

    def test_our_own_scenarios_stay_where_they_were_not_run_again_on_that_store(self):
        def run(store, scenario, rate, commit):
            (self.root / "windlass").mkdir(exist_ok=True)
            about = {"bench": scenario, "scenario": scenario, "store": store, "command": "", "commit": commit, "machine": {"cpu": commit}}
            (self.root / f"windlass/{store[:1]}{scenario}.json").write_text(json.dumps(about | {"figures": {"completed_per_second": rate}}))

        def collected():
            collect.collect(self.root, self.root / "results")
            own = Results.load(self.root / "results")
            return own.own_machine["cpu"], {(run["store"], run["scenario"]): (run["figures"]["completed_per_second"], "date" in run) for run in own.own}

        for store in ("PostgreSQL 15", "SQLite 3"):
            run(store, "drain", 1, "old"), run(store, "keys", 2, "old")
        first = {("PostgreSQL 15", "drain"): (1, False), ("PostgreSQL 15", "keys"): (2, False), ("SQLite 3", "drain"): (1, False), ("SQLite 3", "keys"): (2, False)}
        self.assertEqual(collected(), ("old", first))
        shutil.rmtree(self.root / "windlass")
        run("PostgreSQL 18", "keys", 3, "new")
        del first["PostgreSQL 15", "keys"]
        self.assertEqual(collected(), ("old", first | {("PostgreSQL 18", "keys"): (3, True)}))
        self.assertIn("Measured by itself on", own.sweeps(Results.load(self.root / "results")))

    def test_a_quiet_key_is_told_by_how_long_it_waits(self):
        figures = {"alone": {"p99_us": 4_000}, "beside": {"p99_us": 40_000}}
        run = {"store": "PostgreSQL 18", "bench": "keys", "scenario": "keys", "point": "quiet", "figures": figures}
        self.assertIn("40 ms to start at p99", own.sweeps(Results({"runs": [run]}, {}, {})))

    def test_a_broken_file_is_named(self):
        (self.root / "windlass").mkdir()
        (self.root / "windlass/one.json").write_text("{")
        with self.assertRaisesRegex(collect.Unreadable, "one.json"):
            collect.collect(self.root, self.root / "results")

    def test_the_command_writes_the_page_or_says_what_is_missing(self):
        common = ["--source", str(self.root / "none"), "--page", str(self.root / "page.md"), "--no-charts"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main([*common, "--results", str(self.root / "empty")]), 2)
            self.assertEqual(main([*common, "--results", str(HERE / "results")]), 0)
        self.assertIn("run make bench", said.getvalue())
        self.assertTrue((self.root / "page.md").read_text().startswith("# Benchmarks"))
