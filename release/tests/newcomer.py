"""A machine without Rust, without a network and without anything of ours but the packages, for somebody who reads the README."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(os.environ["WINDLASS_PACKAGES"]).resolve()
OPTIMIZED = os.environ.get("PROFILE") == "dist"
LONG = 60
PROGRAMS = ("node", "npm", "sh", "env", "uname", "ldd")
PYTHON = Path(sys.executable).resolve()  # none of a virtual environment


def package(pattern: str) -> Path:
    """The one package of such a name."""
    found = list(PACKAGES.glob(pattern))
    assert len(found) == 1, f"{len(found)} packages named {pattern} in {PACKAGES}: run scripts/dist"
    return found[0]


def manifest(archive: Path) -> dict[str, object]:
    """What an npm package says of itself."""
    with tarfile.open(archive) as packed:
        return json.load(packed.extractfile("package/package.json"))


def version() -> str:
    """The one version: that of the workspace."""
    section = (ROOT / "Cargo.toml").read_text().split("[workspace.package]")[1]
    return re.search(r'^version = "(.*)"$', section, re.MULTILINE)[1]


def first_screen(language: str) -> str:
    """The README's snippet in a language, as it stands there."""
    return re.search(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]


class Newcomer(unittest.TestCase):
    """Each test has an empty folder; what `install` does is done once for all tests of a class, beside them."""

    @classmethod
    def setUpClass(cls) -> None:
        made = tempfile.TemporaryDirectory(prefix="windlass-newcomer-")
        cls.addClassCleanup(made.cleanup)
        cls.machine = Path(made.name).resolve()
        for name in ("home", "bin", "installed"):
            (cls.machine / name).mkdir()
        for name in PROGRAMS:
            if found := shutil.which(name):
                (cls.machine / "bin" / name).symlink_to(found)
        programs = str(cls.machine / "bin")
        assert shutil.which("cargo", path=programs) is None
        cls.environment = {"PATH": programs, "HOME": str(cls.machine / "home"), "LANG": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        cls.installed = cls.folder = cls.machine / "installed"
        cls.install(cls())

    def install(self) -> None:
        """What a newcomer installs, in the folder `installed`."""

    def setUp(self) -> None:
        self.folder = self.machine / self._testMethodName
        self.folder.mkdir()

    def run_in_folder(self, *command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LONG
        )

    def output(self, *command: object) -> str:
        """What a command prints that must succeed."""
        done = self.run_in_folder(*command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def complaint(self, *command: object) -> str:
        """What a command says that must fail."""
        done = self.run_in_folder(*command)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def works_its_first_job(self, *command: object) -> None:
        """Runs a worker until it has worked the README's job, and stops it as Ctrl-C does."""
        worker = subprocess.Popen(
            [str(word) for word in command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(worker.stdout.close)
        self.addCleanup(worker.kill)
        timer = threading.Timer(LONG, worker.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        said = worker.stdout.readline()
        if said != "a mail to you@example.com\n":
            worker.kill()
            self.fail(f"instead of a mail it printed {said}{worker.stdout.read()}")
        worker.send_signal(signal.SIGINT)
        self.assertEqual((worker.stdout.read(), worker.wait(LONG)), ("", 0))
