import tempfile
import unittest
from pathlib import Path

from bench.measure import scenarios, systems
from bench.measure.schedule import plan, rotated

PEERS = Path(__file__).parent / "peers"
REAL = Path(__file__).parents[1] / "peers"
BY_NAME = scenarios.BY_NAME


def peer(**entries):
    return {"bulk_batch": 5_000, "scenarios": entries, "left_out": {"mixed": "it has no producer"}}


class Environment(unittest.TestCase):
    def test_a_system_sets_its_own_counts(self):
        values = scenarios.environment(BY_NAME["drain"], peer(drain={"jobs": 3_000}))
        self.assertEqual(values, {"BENCH_PROCESSES": "1", "BENCH_TUNED": "1", "BENCH_JOBS": "3000"})

    def test_another_name_of_a_scenario_is_understood(self):
        self.assertEqual(scenarios.counts(BY_NAME["drain-two"], peer(**{"drain": {"jobs": 1}, "drain-2p": {"jobs": 4_000}})), {"jobs": 4_000})

    def test_the_bulk_batch_is_the_systems_and_with_ten_clients_that_of_the_seeds(self):
        own = peer(**{"enqueue-bulk": {}, "enqueue-bulk-ten": {"batch": 7}})
        self.assertEqual(scenarios.environment(BY_NAME["enqueue-bulk"], own)["BENCH_BATCH"], "5000")
        self.assertEqual(scenarios.environment(BY_NAME["enqueue-bulk-ten"], own)["BENCH_BATCH"], "1000")

    def test_seconds_are_the_same_for_all_and_scaled_down_only_so_far(self):
        own = peer(mixed={"seconds": 5, "backlog": 2_000})
        self.assertEqual(scenarios.environment(BY_NAME["held"], own), {"BENCH_BACKLOG": "2000", "BENCH_SECONDS": "60"})
        self.assertEqual(scenarios.counts(BY_NAME["held"], own, scale=0.001), {"seconds": 3})

    def test_what_is_left_out_has_a_reason(self):
        self.assertEqual(scenarios.left_out(BY_NAME["held"], peer(mixed={})), "it has no producer")
        self.assertIn("peer.json", scenarios.left_out(BY_NAME["latency"], peer(drain={})))
        self.assertIsNone(scenarios.left_out(BY_NAME["drain"], peer(drain={})))


class Plan(unittest.TestCase):
    def test_rounds_interleave_all_systems_and_none_always_comes_first(self):
        found = systems.discover(PEERS)
        order = [(turn, system.name) for _, turn, system in plan(found, [BY_NAME["drain"]])]
        self.assertEqual(len(order), len(set(order)), 9)
        firsts = [next(name for at, name in order if at == turn) for turn in (1, 2, 3)]
        self.assertEqual(len(set(firsts)), 3)
        self.assertEqual(rotated([], 3), [])

    def test_redis_is_not_asked_to_hold_a_snapshot(self):
        redis = systems.System("x", PEERS / "slow", systems.read_peer(PEERS / "slow"), "redis-always")
        self.assertEqual(list(plan([redis], [BY_NAME["held"]])), [])


class Systems(unittest.TestCase):
    def test_every_peer_of_this_repository_keeps_the_contract(self):
        for system in systems.discover(REAL):
            self.assertTrue((system.folder / "run").exists(), f"{system.folder} has no run")
            self.assertIn(system.peer["kind"], ("queue", "events", "baseline"), system.folder)
            able = [scenario.name for scenario in scenarios.SCENARIOS if not scenarios.left_out(scenario, system.peer)]
            self.assertTrue(able, f"{system.folder} takes part in nothing")

    def test_an_unknown_system_is_named_with_those_that_are_known(self):
        with self.assertRaisesRegex(systems.BadPeer, "rvier.*slow"):
            systems.chosen(systems.discover(PEERS), ["rvier"])

    def test_both_servers_make_three_rows(self):
        titles = [systems.System("x", PEERS, {"title": "Q", "server": "postgres+redis"}, server).title for server in ("postgres", "redis-everysec", "redis-always")]
        self.assertEqual(titles, ["Q, PostgreSQL", "Q, Redis, fsync every second", "Q, Redis, fsync always"])

    def test_an_install_that_cannot_is_skipped_with_its_reason_and_one_that_fails_with_its_code(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for script, reason in (("exit 0", None), ("echo no go here >&2; exit 77", "no go here"), ("echo boom >&2; exit 3", "exit code 3: boom")):
                (folder / "install").write_text(f"#!/bin/sh\n[ -n \"$PEERS_HOME\" ] || exit 9\n{script}\n")
                (folder / "install").chmod(0o755)
                found = systems.install(folder, folder, folder / "log")
                self.assertTrue(found is None if reason is None else reason in found, found)


if __name__ == "__main__":
    unittest.main()
