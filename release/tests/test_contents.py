"""What all packages have in common: one version, checksums, nothing of the machine that built them, and in the sdist what it takes to build."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from release.tests.newcomer import OPTIMIZED, PACKAGES, ROOT, Newcomer, manifest, package, version

PUBLIC = {"registry.npmjs.org", "pypi.org", "crates.io", "github.com", "static.crates.io", "index.crates.io"}


def files(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            yield from ((name, packed.read(name)) for name in packed.namelist())
    else:
        with tarfile.open(archive) as packed:
            yield from ((member.name, packed.extractfile(member).read()) for member in packed if member.isfile())


def archives() -> list[Path]:
    return [path for path in PACKAGES.iterdir() if path.name != "SHA256SUMS"]


def registries() -> set[str]:
    """The hosts of registries that this machine was told to use."""
    commands = (["npm", "config", "get", "registry"], ["python3", "-m", "pip", "config", "get", "global.index-url"])
    said = [subprocess.run(command, capture_output=True, text=True, check=False).stdout for command in commands]
    urls = [*said, os.environ.get("PIP_INDEX_URL", ""), os.environ.get("CARGO_REGISTRIES_CRATES_IO_INDEX", "")]
    return {host for url in urls if (host := urlsplit(url.strip()).hostname)} - PUBLIC


class Contents(Newcomer):
    def test_all_have_the_version_of_the_workspace(self) -> None:
        main, native = manifest(package("windlass-[0-9]*.tgz")), manifest(package("windlass-node-*.tgz"))
        sdk = ROOT / "sdks/node"
        in_tree = [json.loads((sdk / name).read_text())["version"] for name in ("package.json", "package-lock.json")]
        described = [content.decode() for name, content in files(package("*.whl")) if name.endswith("METADATA")]
        described += [content.decode() for name, content in files(package("windlass-*[0-9].tar.gz")) if name.count("/") == 1 and "PKG-INFO" in name]
        python = [re.search("^Version: (.*)$", text, re.MULTILINE)[1] for text in described]
        with tarfile.open(package("windlass-*-*-*.tar.gz")) as packed:
            packed.extractall(self.folder, filter="data")
        (command,) = self.folder.glob("windlass-*/windlass")
        said = self.output(command, "--version").split()[1]
        self.assertEqual([main["version"], native["version"], *in_tree, *python, said], [version()] * 7)

    def test_checksums_fit(self) -> None:
        sums = dict(line.split("  ")[::-1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives()})

    def test_nothing_names_the_machine_that_built_it(self) -> None:
        places = {str(ROOT), str(Path.home()), os.environ.get("CARGO_HOME", "")} - {"", "/"}
        words = [word.encode() for word in {f"{place}/" for place in places} | registries()]
        for archive in archives():
            for name, content in files(archive):
                if OPTIMIZED or b"\0" not in content:
                    found = {word for word in words if word in content}
                    self.assertFalse(found, f"{archive.name}: {name}")

    def test_the_sdist_has_the_crates_of_the_module_and_no_others(self) -> None:
        packed = dict(files(package("windlass-*[0-9].tar.gz")))
        crates = {name.split("/")[2] for name in packed if name.split("/")[1] == "crates"}
        self.assertEqual(crates, needed_crates())
        top = {name.split("/")[1] for name in packed}
        licenses = {"LICENSE-APACHE", "LICENSE-MIT"}
        self.assertEqual(top, licenses | {"Cargo.lock", "Cargo.toml", "PKG-INFO", "README.md", "crates", "pyproject.toml", "python", "sdks"})
        self.assertFalse([name for name in packed if "_native.abi3" in name])


def needed_crates() -> set[str]:
    """The crates of the workspace that windlass-py is built and resolved with, by what their manifests say."""
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT))
    depends = {each["name"]: [on["name"] for on in each["dependencies"] if "path" in on] for each in metadata["packages"]}
    needed, found = set(), ["windlass-py"]
    while found:
        name = found.pop()
        if name not in needed:
            needed.add(name)
            found += depends[name]
    return needed - {"windlass-py"}
