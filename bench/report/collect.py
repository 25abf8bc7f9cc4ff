"""From the many files of target/bench to the three that are committed: bench/results/windlass.json, peers.json, machine.json."""

import json
import re
import time
from pathlib import Path

# What a windlass run says besides its machine, which is the same for all of them.
OURS = ("bench", "scenario", "point", "command", "store", "durability", "settling", "settings", "figures")
# Where the store was says nothing, and differs each time.
STORE = re.compile(r" --store[ =]\S+")
ABOUT_SYSTEM = ("title", "kind", "language", "tuning", "server", "durability")
OF_RUN = ("system", "scenario", "round", "status", "reason", "scale", "version", "environment", "settings", "figures", "measured", "held_from_seconds")


class Unreadable(Exception):
    """A file that is not what the benchmarks write."""


def read(path):
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise Unreadable(f"{path}: not JSON: {error}; remove it or run its benchmark again") from error


def windlass_runs(folder):
    """All runs of `windlass-bench run`, in the order in which they were made: that of its scenarios and points."""
    runs = []
    for path in sorted(Path(folder).rglob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        document = read(path)
        for run in document if isinstance(document, list) else [document]:
            if "bench" in run and "figures" in run:
                kept = {name: run[name] for name in OURS if run.get(name) is not None}
                kept["command"] = STORE.sub("", kept.get("command", ""))
                when = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
                about = {"date": when, "revision": run.get("commit")}
                runs.append(kept | {"date": when, "machine": (run.get("machine") or {}) | {name: value for name, value in about.items() if value}})
    return runs


def peer_runs(folder):
    """systems: name -> what it is; runs: what was measured."""
    systems, runs = {}, []
    for path in sorted(Path(folder).glob("runs/*/*.json")):
        record = read(path)
        systems[record["system"]] = {name: record[name] for name in ABOUT_SYSTEM}
        kept = {name: record[name] for name in OF_RUN if record.get(name) is not None}
        runs.append(kept | {"date": record["at"][:10]})
    return {"systems": systems, "runs": runs}


def collect(source, results):
    """Writes each of the three files for which there is something new; tells which."""
    source, results = Path(source), Path(results)
    written = []
    ours, peers, about = windlass_runs(source / "windlass"), peer_runs(source / "peers"), source / "peers/about.json"
    machines = [run.pop("machine") for run in ours]
    results.mkdir(parents=True, exist_ok=True)
    if ours:
        ours = {"machine": machines[0], "runs": ours}
        keep_our_own(ours, results)
        written.append(write(results / "windlass.json", ours))
    about = read_if_there(about)
    if peers["runs"]:
        about = keep_peers(peers, about, results)
        written.append(write(results / "peers.json", peers))
    if about:
        written.append(write(results / "machine.json", about))
    return written


def older(before, runs, which):
    """The runs of before that were not made again. Only where there are such do the new ones say on which day they were made."""
    again = {which(run) for run in runs}
    kept = [run for run in before.get("runs", []) if which(run) not in again]
    if not kept:
        for run in runs:
            run.pop("date", None)
    return kept


def keep_our_own(ours, results):
    """Adds the scenarios of before that have no new run on their store. If there are any, the machine stays as it was described."""
    before = read_if_there(results / "windlass.json")
    kept = older(before, ours["runs"], lambda run: (run["store"].split()[0], run.get("scenario")))
    if kept:
        ours |= {"machine": before["machine"], "runs": kept + ours["runs"]}


def keep_peers(peers, about, results):
    """The same of runs beside the peers; `about` describes the machine, and who takes part in what."""
    before, machine = read_if_there(results / "peers.json"), read_if_there(results / "machine.json")
    kept = older(before, peers["runs"], lambda run: run["scenario"])
    if not kept:
        return about
    peers |= {"systems": before["systems"] | peers["systems"], "runs": kept + peers["runs"]}
    left_out = dict(machine.get("left_out", {}))
    for name, reasons in about.get("left_out", {}).items():
        left_out[name] = left_out.get(name, {}) | reasons
    return machine | {"left_out": left_out}


def read_if_there(path):
    return read(path) if path.exists() else {}


def write(path, document):
    """One run a line: short, and a diff shows which runs changed."""
    parts = []
    for name, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join("  " + json.dumps(each, separators=(",", ":")) for each in value)
            parts.append(f" {json.dumps(name)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    return path
