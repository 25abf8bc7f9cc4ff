import json
import tempfile
import unittest
from pathlib import Path

from bench.measure import adapter, ratios, systems, usage
from bench.measure.schedule import Bench, plan
from bench.measure.scenarios import BY_NAME

PEERS = Path(__file__).parent / "peers"


class FakePostgres:
    """Counts what a run asks of the server."""

    def __init__(self):
        self.made, self.dropped, self.asked = [], [], 0

    def fresh(self, name):
        self.made.append(name)
        return f"postgres://nobody@127.0.0.1:1/{name}"

    def drop(self, name):
        self.dropped.append(name)

    def settled(self, name):
        pass

    def counters(self, name):
        self.asked += 1
        return {"wal_bytes": 1_000 * self.asked, "commits": 7 * self.asked, "server_cpu_seconds": None}


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = Path(self.folder.name)
        self.postgres = FakePostgres()
        self.bench = Bench(self.out, self.out, self.postgres, {})
        self.systems = systems.discover(PEERS)

    def run_all(self, *names, rounds=1):
        return [self.bench.run(*each) for each in plan(self.systems, [BY_NAME[name] for name in names], rounds)]

    def test_every_run_has_its_own_database_and_its_record_at_once(self):
        records = self.run_all("drain", "latency")
        self.assertEqual(len(records), 6)
        self.assertEqual(self.postgres.made, self.postgres.dropped)
        on_disk = [json.loads(path.read_text()) for path in sorted(self.out.glob("runs/*/*.json"))]
        self.assertEqual(sorted(each["system"] for each in on_disk), sorted(each["system"] for each in records))
        good = next(each for each in records if each["system"] == "windlass")
        self.assertEqual(good["measured"]["wal_bytes"], 1_000)
        self.assertEqual(good["measured"]["commits"], 7)
        self.assertNotIn("server_cpu_seconds", good["measured"])
        self.assertGreater(good["measured"]["peak_memory_bytes"], 0)

    def test_a_run_that_fails_is_recorded_with_its_reason_and_the_rest_goes_on(self):
        records = {each["system"]: each for each in self.run_all("drain")}
        self.assertEqual(records["broken"]["status"], "failed")
        self.assertIn("one job is missing: 17", records["broken"]["reason"])
        self.assertEqual(records["slow"]["status"], "ok")
        cannot = {each["system"]: each for each in self.run_all("latency")}["broken"]
        self.assertEqual((cannot["status"], cannot["reason"]), ("cannot", "one job is missing: 17"))

    def test_only_a_run_that_ended_well_at_the_same_scale_is_not_repeated(self):
        self.run_all("drain")
        for system in self.systems:
            self.assertEqual(self.bench.done(BY_NAME["drain"], 1, system) is not None, system.name != "broken")
        self.bench.scale = 0.5
        self.assertIsNone(self.bench.done(BY_NAME["drain"], 1, self.systems[0]))

    def test_ratios_leave_out_what_failed_and_turn_round_where_less_is_better(self):
        records = self.run_all("drain", "latency", rounds=2)
        for name in ("drain", "latency"):
            rows = ratios.compare(records, name)
            self.assertEqual([row[0] for row in rows], ["windlass", "slow"])
            self.assertEqual(rows[1][5], 2.0)
        self.assertEqual(ratios.best(ratios.compare(records, "drain"))[0], "slow")
        self.assertIn("one job is missing", ratios.text(records))


class Adapter(unittest.TestCase):
    def outcome(self, script, timeout=20.0):
        with tempfile.TemporaryDirectory() as folder:
            return adapter.run(["/bin/sh", "-c", script], folder, {"PATH": "/usr/bin:/bin"}, Path(folder) / "log", timeout)

    def test_a_run_that_hangs_is_ended_with_its_children(self):
        outcome = self.outcome("sleep 600 & echo $! >&2; wait", timeout=0.5)
        self.assertEqual(outcome.status, "failed")
        self.assertIn("longer than", outcome.reason)
        fields = usage.stat(outcome.reason.split()[-1])
        self.assertTrue(fields is None or fields[0] == b"Z", fields)

    def test_a_last_line_that_is_no_answer_is_a_failure(self):
        for script in ("echo hello", "true", "echo '{}'", """echo '{"figures": 3}'"""):
            outcome = self.outcome(script)
            self.assertEqual(outcome.status, "failed", script)
            self.assertIn("contract", outcome.reason)

    def test_what_cannot_be_started_is_a_failure(self):
        outcome = adapter.run(["/nonexistent/run"], "/", {}, Path(tempfile.gettempdir()) / "bench-none", 1)
        self.assertEqual(outcome.status, "failed")
