"""The systems under bench/peers: what their peer.json says, which servers they run on, and their installation."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CANNOT = 77  # an adapter's exit code for "cannot be done here", with the reason on stderr
REQUIRED = {"title", "language", "server", "version", "kind", "tuning", "bulk_batch", "scenarios"}
# SQLite has no server: its adapter makes a file of its own under PEERS_HOME.
SERVERS = {"postgres": ["postgres"], "sqlite": ["sqlite"], "redis": ["redis-everysec", "redis-always"]}
DURABILITY = {
    "postgres": "fsync and synchronous_commit on",
    "sqlite": "synchronous = full",
    "redis-everysec": "AOF, fsync every second",
    "redis-always": "AOF, fsync always",
}


class BadPeer(Exception):
    """A peer.json that breaks the contract."""


@dataclass(frozen=True)
class System:
    """An adapter on one server with one durability: a row of the tables."""

    name: str
    folder: Path
    peer: dict
    server: str  # a key of DURABILITY

    @property
    def title(self):
        suffix = {"redis-everysec": ", fsync every second", "redis-always": ", fsync always"}
        several = self.peer["server"] == "postgres+redis"
        where = {"postgres": ", PostgreSQL", "sqlite": ", SQLite"}.get(self.server, ", Redis") if several else ""
        return self.peer["title"] + where + suffix.get(self.server, "")


def read_peer(folder):
    path = folder / "peer.json"
    try:
        peer = json.loads(path.read_text())
    except ValueError as error:
        raise BadPeer(f"{path}: not JSON: {error}") from error
    missing = sorted(REQUIRED - peer.keys())
    if missing:
        raise BadPeer(f"{path}: lacks {', '.join(missing)}; bench/peers/README.md says what belongs there")
    unknown = set(peer["server"].split("+")) - SERVERS.keys()
    if unknown:
        raise BadPeer(f"{path}: unknown server {', '.join(sorted(unknown))}; known are postgres, redis, sqlite, postgres+redis")
    return peer


def discover(folder):
    """Every folder with a peer.json, ours first, as one system for each server and durability."""
    paths = sorted(Path(folder).glob("*/peer.json"), key=lambda path: (path.parent.name != "windlass", path.parent.name))
    found = []
    for path in paths:
        peer = read_peer(path.parent)
        servers = [each for part in peer["server"].split("+") for each in SERVERS[part]]
        for server in servers:
            name = path.parent.name if len(servers) == 1 else f"{path.parent.name}-{server}"
            found.append(System(name, path.parent, peer, server))
    return found


def chosen(systems, only):
    """The systems of --only: by their own name or their folder's."""
    if not only:
        return systems
    known = {system.name for system in systems} | {system.folder.name for system in systems}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise BadPeer(f"no such system: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return [system for system in systems if system.name in only or system.folder.name in only]


def install(folder, home, log, timeout=1800):
    """Runs a peer's install; the reason when it cannot be used, None when it can."""
    script = folder / "install"
    if not script.exists():
        return None
    environment = dict(os.environ, PEERS_HOME=str(home))
    with open(log, "wb") as output:
        try:
            code = subprocess.run([str(script)], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            return f"its install took longer than {timeout} s (logs/{log.name})"
        except OSError as error:
            return f"its install cannot be run: {error}"
    if code == 0:
        return None
    return last_line(log) if code == CANNOT else f"its install failed with exit code {code}: {last_line(log)} (logs/{log.name})"


def last_line(path):
    lines = [line.strip() for line in Path(path).read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"
