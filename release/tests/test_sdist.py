"""pip install of the sdist, on a machine without Rust. That it builds where Rust is, `make dist` shows, which makes the wheel of it."""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from release.tests.newcomer import ROOT, Newcomer, package

MATURIN = Path(sys.executable).parent / "maturin"


class Sdist(Newcomer):
    def test_without_rust_it_says_what_it_takes(self) -> None:
        (self.machine / "bin" / "maturin").symlink_to(MATURIN)
        # Where pip may ask PyPI, maturin fetches a Rust of its own.
        command = ["env", "MATURIN_NO_INSTALL_RUST=1", sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps"]
        said = self.complaint(*command, "--target", "installed", package("windlass-*[0-9].tar.gz"))
        self.assertIn("This package requires Rust and Cargo to compile extensions", said)
        self.assertIn("https://rustup.rs", said)

    def test_what_it_takes_is_said_in_it(self) -> None:
        with tarfile.open(package("windlass-*[0-9].tar.gz")) as packed:
            packed.extractall(self.folder, filter="data")
        (folder,) = self.folder.glob("windlass-*")
        self.assertRegex((folder / "README.md").read_text(), r"Rust 1\.\d+ .*C compiler")
        self.assertRegex((folder / "Cargo.toml").read_text(), r'(?m)^rust-version = "1\.\d+"$')
        # What its manifests name is there, and its Cargo.lock holds every version; what is only the workspace's goes out of it.
        metadata = ["cargo", "metadata", "--offline", "--format-version", "1", "--manifest-path", folder / "sdks/python/Cargo.toml"]
        done = subprocess.run(metadata, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        locked = set(re.findall(r'name = "(.*)"\nversion = "(.*)"', (ROOT / "Cargo.lock").read_text()))
        built = {(one["name"], one["version"]) for one in json.loads(done.stdout)["packages"]}
        self.assertFalse(built - locked)
