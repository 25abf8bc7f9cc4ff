import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from bench.guard import command, pairs, versions

DRAIN, LATENCY = pairs.CASES[0], pairs.CASES[3]


class Verdict(unittest.TestCase):
    def test_slower_only_when_every_pair_is(self):
        self.assertTrue(pairs.judge(DRAIN, "sqlite", [(100, 80), (100, 70), (100, 89)])["slower"])
        self.assertFalse(pairs.judge(DRAIN, "sqlite", [(100, 80), (100, 70), (100, 91)])["slower"])

    def test_a_higher_latency_is_slower(self):
        judged = pairs.judge(LATENCY, "sqlite", [(100, 200), (100, 400)])
        self.assertTrue(judged["slower"])
        self.assertEqual(judged["ratio"], {"least": 0.25, "median": 0.375, "most": 0.5})

    def test_who_comes_first_alternates_and_pairs_stay_pairs(self):
        asked = []

        def measure(who):
            asked.append(who)
            return len(asked)

        self.assertEqual(pairs.pairs(3, measure), [(1, 2), (4, 3), (5, 6)])
        self.assertEqual(asked, ["base", "ours", "ours", "base", "base", "ours"])

    def test_a_version_that_does_not_know_a_case_says_why(self):
        with self.assertRaisesRegex(pairs.Refused, "exit code 2: unknown"):
            pairs.call(["/bin/sh", "-c", "echo unknown >&2; exit 2"], {}, 10)

    def test_a_command_gets_the_case_behind_its_own_words(self):
        program = """import json, sys; assert sys.argv[1:] == ["bench", "drain", "--jobs", "1000000", "--store", "u", "--json"], sys.argv
print(json.dumps({"figures": {"completed_per_second": 7}}))"""
        self.assertEqual(pairs.run([sys.executable, "-c", program, "bench"], DRAIN, "u"), 7)


class Median(unittest.TestCase):
    def said(self, found, median):
        results = [pairs.judge(DRAIN, "sqlite", found)]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = command.verdict("v1", results, [], pairs.TOLERANCE, median)
        return code, out.getvalue().splitlines()[-1]

    def test_it_counts_only_where_it_is_asked_for(self):
        found = [(100, 95), (100, 96), (100, 110)]
        self.assertEqual(self.said(found, None), (0, "nothing is slower by more than 10% in every pair"))
        self.assertEqual(self.said(found, 0.03), (1, "slower by more than 3% in the median: sqlite drain"))
        self.assertEqual(self.said(found, 0.05)[0], 0)

    def test_only_narrows_the_cases(self):
        self.assertEqual(len(command.cases("")), 2 * len(pairs.CASES))
        self.assertEqual([(store, case.name) for store, case in command.cases("sqlite, latency")], [("sqlite", "latency, average")])
        self.assertEqual(command.cases("nonsense"), [])


class Command(unittest.TestCase):
    def test_the_harness_is_a_crate_of_its_own_or_a_command_of_the_cli(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(versions.harness(Path(folder)), ("windlass-cli", "windlass", ["bench"]))
            crate = Path(folder) / "crates/windlass-bench"
            crate.mkdir(parents=True)
            (crate / "Cargo.toml").touch()
            self.assertEqual(versions.harness(Path(folder)), ("windlass-bench", "windlass-bench", []))

    def test_cargo_names_the_binary(self):
        def built(name, path):
            return json.dumps({"target": {"name": name}, "executable": path})

        messages = "\n".join([json.dumps({"reason": "other"}), built("windlass", "/a"), built("windlass-bench", "/b")])
        self.assertEqual(versions.executable(messages, "windlass-bench"), "/b")
        with self.assertRaisesRegex(versions.Unusable, "no binary windlass-x"):
            versions.executable(messages, "windlass-x")


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.git("init", "--quiet")
        self.commit("one")

    def git(self, *arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", str(self.root), *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text):
        (self.root / "file").write_text(text)
        self.git("add", "file")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")

    def test_the_first_commit_has_nothing_before_it(self):
        with self.assertRaisesRegex(versions.Unusable, "no commit before"):
            versions.resolve(self.root, "")

    def test_without_a_release_it_is_the_commit_before_the_changes(self):
        first = self.git("rev-parse", "HEAD")
        second = self.commit("two")
        self.assertEqual(versions.resolve(self.root, ""), ("HEAD~1", first))
        (self.root / "file").write_text("changed")
        self.assertEqual(versions.resolve(self.root, ""), ("HEAD", second))

    def test_the_newest_release_that_is_not_this_commit(self):
        self.git("tag", "v0.9.0")
        release = self.commit("two")
        self.git("tag", "v0.10.0")
        self.assertEqual(versions.resolve(self.root, "")[0], "v0.9.0")
        self.commit("three")
        self.assertEqual(versions.resolve(self.root, ""), ("v0.10.0", release))

    def test_a_base_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(versions.Unusable, "BASE=nonsense"):
            versions.resolve(self.root, "nonsense")
