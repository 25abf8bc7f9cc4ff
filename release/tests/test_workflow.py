"""The release workflow, which cannot run here: that it is YAML, says so, and builds each platform by the scripts that are tested."""

import json
import unittest

import yaml

from release.tests.newcomer import ROOT

FILE = ROOT / ".github/workflows/release.yml"


class Workflow(unittest.TestCase):
    def setUp(self) -> None:
        self.jobs = yaml.safe_load(FILE.read_text())["jobs"]

    def test_it_says_that_it_never_ran(self) -> None:
        self.assertTrue(FILE.read_text().startswith("# NOT RUN HERE; NEVER RUN YET."))

    def test_it_builds_each_platform_by_the_script(self) -> None:
        build = self.jobs["build"]
        targets = [row["target"] for row in build["strategy"]["matrix"]["include"]]
        self.assertEqual(targets, list(json.loads((ROOT / "release/platforms.json").read_text())))
        self.assertIn("scripts/dist ${{ matrix.parts }}", [step.get("run") for step in build["steps"]])

    def test_only_what_publishes_gets_an_identity_and_no_secret_is_named(self) -> None:
        identified = {name for name, job in self.jobs.items() if "id-token" in job.get("permissions", {})}
        self.assertEqual(identified, {"build", "pypi", "npm"})  # build: for the attestations
        self.assertNotIn("secrets.", FILE.read_text())
