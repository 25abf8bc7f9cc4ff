"""Builds the packages of one platform: scripts/dist says how it is called, docs/release.md what comes of it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = json.loads((ROOT / "release/platforms.json").read_text())
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT")
OLDEST_GLIBC = "2.17"
# Makefile, WORKSPACE and TARGETS.
WORKSPACE = "--workspace --features windlass/sqlx,windlass/diesel,windlass/testing --lib --bins --tests --examples"
LIBRARIES = {"linux": "lib{}.so", "darwin": "lib{}.dylib", "win32": "{}.dll"}


@dataclass
class Build:
    optimized: bool
    target: str
    out: Path
    version: str
    folder: Path  # cargo's

    @property
    def platform(self) -> dict[str, str]:
        return PLATFORMS[self.target]

    def compiled(self, package: str, target: str) -> Path:
        """Where cargo left what it made of a package."""
        if not self.optimized:
            return self.folder / "debug"
        cargo = ["cargo-zigbuild", "zigbuild"] if "linux" in target else ["cargo", "build"]
        wanted = f"{target}.{OLDEST_GLIBC}" if target.endswith("linux-gnu") else target
        run(*cargo, "--locked", "--profile", "dist", "--package", package, "--target", wanted, RUSTFLAGS=rust_flags(package, target))
        return self.folder / target / "dist"

    def empty(self, name: str) -> Path:
        """An empty folder to put a package together in."""
        folder = self.folder / "packages" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def python(build: Build) -> None:
    """The wheel and the sdist; an optimized wheel is built from the sdist, which shows that nothing is missing there."""
    maturin = ["--manifest-path", "sdks/python/Cargo.toml", "--out", str(build.out)]
    if not build.optimized:
        run("maturin", "sdist", *maturin)
        run("maturin", "build", "--quiet", "--profile", "dev", *maturin, PATH=f"{workspace_cargo(build)}:{os.environ['PATH']}")
        return
    zig = ["--zig"] if build.platform["os"] == "linux" else []
    options = ["--sdist", "--profile", "dist", "--target", build.target, "--compatibility", build.platform["wheel"], *zig]
    run("maturin", "build", *options, *maturin, RUSTFLAGS=rust_flags("windlass-py", build.target))


def workspace_cargo(build: Build) -> Path:
    """A folder with a cargo that builds the workspace when it is asked for one package: alone, that has other features, and would be compiled anew with all
    that it depends on. Nor does it hear for which Python, which would compile pyo3 anew: with abi3 it is the same for all."""
    folder = build.empty("cargo")
    unset = " ".join(f"-u {name}" for name in ("PYO3_PYTHON", "PYO3_CONFIG_FILE", "PYO3_ENVIRONMENT_SIGNATURE", "PYTHON_SYS_EXECUTABLE"))
    cargo, path = shutil.which("cargo"), os.environ.get("PATH_OF_CARGO", os.environ["PATH"])
    script = f"""#!/bin/sh
case $1 in
rustc) env {unset} 'PATH={path}' '{cargo}' build {WORKSPACE} --quiet --message-format json-render-diagnostics | grep windlass_py ;;
*) exec '{cargo}' "$@" ;;
esac
"""
    (folder / "cargo").write_text(script)
    (folder / "cargo").chmod(0o755)
    return folder


def node(build: Build) -> None:
    """The package `windlass` and the one with the addon of this platform."""
    sdk = ROOT / "sdks/node"
    manifest = json.loads((sdk / "package.json").read_text())
    shutil.rmtree(sdk / "dist", ignore_errors=True)
    run("npm", "run", "--silent", "build", cwd=sdk)
    folder = build.empty("windlass")
    shutil.copytree(sdk / "dist", folder / "dist")
    shutil.copy(sdk / "README.md", folder)
    addons = {f"@windlass/node-{platform['npm']}": build.version for platform in PLATFORMS.values()}
    left_out = ("devDependencies", "scripts")
    pack(build, folder, {key: value for key, value in manifest.items() if key not in left_out} | {"optionalDependencies": addons})

    platform = build.platform
    folder = build.empty(platform["npm"])
    library = LIBRARIES[platform["os"]].format("windlass_node")
    shutil.copy(build.compiled("windlass-node", build.target) / library, folder / "windlass.node")
    if not build.optimized and platform["os"] == "linux":
        run("strip", "--strip-all", str(folder / "windlass.node"))
    (folder / "README.md").write_text(f"The native part of the package `windlass` for {platform['npm']}, which installs it where it fits.\n")
    only = {key: [platform[key]] for key in ("os", "cpu", "libc") if key in platform}
    described = {"name": f"@windlass/node-{platform['npm']}", "description": f"The native part of windlass for {platform['npm']}."}
    kept = {key: manifest[key] for key in ("license", "engines")}
    pack(build, folder, described | kept | only | {"main": "windlass.node", "files": ["windlass.node"]})


def command(build: Build) -> None:
    """The command `windlass`, with its licenses; on Linux it needs no library of the machine."""
    target = build.platform["command"] if build.optimized else build.target
    name = "windlass.exe" if "windows" in target else "windlass"
    folder = build.empty("command")
    shutil.copy(build.compiled("windlass-cli", target) / name, folder)
    if not build.optimized:
        run("strip", str(folder / name))
    for license in LICENSES:
        shutil.copy(ROOT / license, folder)
    packed = f"windlass-{build.version}-{target}"
    with tarfile.open(build.out / f"{packed}.tar.gz", "w:gz") as archive:
        archive.add(folder, packed, filter=anonymous)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def pack(build: Build, folder: Path, manifest: dict[str, Any]) -> None:
    for license in LICENSES:
        shutil.copy(ROOT / license, folder)
    manifest = manifest | {"version": build.version, "files": [*manifest["files"], *LICENSES]}
    (folder / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
    run("npm", "pack", "--silent", "--pack-destination", str(build.out), cwd=folder)


def rust_flags(package: str, target: str) -> str:
    """Folders of this machine are named in no message of a panic; an addon for musl is a library, so it is linked dynamically."""
    flags = [f"--remap-path-prefix={folder}={name}" for folder, name in machine_folders()]
    if target.endswith("musl") and package != "windlass-cli":
        flags.append("-Ctarget-feature=-crt-static")
    return " ".join(flags)


def c_flags() -> str:
    return " ".join(f"-ffile-prefix-map={folder}={name}" for folder, name in machine_folders())


def machine_folders() -> list[tuple[str, str]]:
    return [(os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo"), "cargo"), (str(ROOT), "windlass")]


def run(program: str, *args: str, cwd: Path = ROOT, **environment: str) -> None:
    found = shutil.which(program) or program
    c = {} if os.name == "nt" else {"CFLAGS": c_flags()} if "RUSTFLAGS" in environment else {}
    subprocess.run([found, *args], cwd=cwd, check=True, env=os.environ | c | environment)


def checksums(folder: Path) -> None:
    packages = sorted(path for path in folder.iterdir() if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in packages]
    (folder / "SHA256SUMS").write_text("".join(sums))
    for path in packages:
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


def main(wanted: list[str]) -> None:
    parts = {"python": python, "node": node, "command": command}
    if unknown := set(wanted) - set(parts):
        sys.exit(f"dist: no part is named {', '.join(unknown)}; there are {', '.join(parts)}")
    rustc = subprocess.check_output(["rustc", "-vV"], text=True)
    target = os.environ.get("TARGET") or next(line.split()[1] for line in rustc.splitlines() if line.startswith("host:"))
    if target not in PLATFORMS:
        sys.exit(f"dist: {target} is no platform of release/platforms.json; TARGET may be one of {', '.join(PLATFORMS)}")
    profile = os.environ.get("PROFILE") or "dist"
    if profile not in ("dist", "dev"):
        sys.exit(f"dist: PROFILE is {profile}; it may be dist or dev")
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT))
    version = next(package["version"] for package in metadata["packages"] if package["name"] == "windlass")
    out = ROOT / (os.environ.get("OUT") or "dist")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build = Build(profile == "dist", target, out, version, Path(metadata["target_directory"]))
    for part in wanted or parts:
        parts[part](build)
    checksums(out)


if __name__ == "__main__":
    main(sys.argv[1:])
