"""`make bench-peers`: installs the peers, starts the servers, runs everything interleaved, prints ratios."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from bench.measure import ratios, scenarios, schedule, systems
from bench.measure.machine import machine
from bench.measure.postgres import Postgres
from bench.measure.redis import Redis

ROOT = Path(__file__).resolve().parents[2]


def say(text):
    print(text, file=sys.stderr, flush=True)


def options(arguments):
    parser = argparse.ArgumentParser(prog="bench/peers/run", description=__doc__)
    names = lambda text: [name for name in text.split(",") if name]  # noqa: E731
    parser.add_argument("--only", type=names, default=[], metavar="SYSTEM,...", help="only these systems (folders of bench/peers)")
    parser.add_argument("--scenarios", type=names, default=[], metavar="A,B", help=f"only these of: {', '.join(scenarios.BY_NAME)}")
    parser.add_argument("--rounds", type=int, help="rounds of each scenario (default: drain 3, others 2)")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of the jobs, for a quick look")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench/peers", help="where the JSON goes (default: target/bench/peers)")
    parser.add_argument("--peers", type=Path, default=ROOT / "bench/peers", help="where the adapters are")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a run counts as failed")
    parser.add_argument("--resume", action="store_true", help="leave out the runs that are already there and ended well")
    parser.add_argument("--no-install", action="store_true", help="take the peers as they are installed")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.scenarios if name not in scenarios.BY_NAME]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)}; known are {', '.join(scenarios.BY_NAME)}")
    if chosen.scale <= 0 or (chosen.rounds is not None and chosen.rounds < 1):
        parser.error("--scale and --rounds must be above zero")
    return chosen


def main(arguments):
    chosen = options(arguments)
    if "WINDLASS_TEST_POSTGRES" not in os.environ:
        os.environ["WINDLASS_TEST_SHARED_BUFFERS"] = "2GB"
        script = str(ROOT / "scripts/with-postgres")
        os.execv(script, [script, str(ROOT / "bench/peers/run"), *arguments])
    # A background child of a shell ignores Ctrl-C unless it says otherwise.
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        return measure(chosen)
    except systems.BadPeer as error:
        say(f"bench-peers: {error}")
        return 2
    except KeyboardInterrupt:
        say("bench-peers: interrupted; --resume goes on from here")
        return 130


def interrupted(*_):
    """Once: a second signal (the shell passes the terminal's on) must not cut the clean-up short."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def measure(chosen):
    wanted = [scenario for scenario in scenarios.SCENARIOS if not chosen.scenarios or scenario.name in chosen.scenarios]
    found = systems.chosen(systems.discover(chosen.peers.resolve()), chosen.only)
    if not found:
        raise systems.BadPeer(f"no folder of {chosen.peers} has a peer.json")
    out = chosen.out.resolve()
    home = Path(os.environ.get("PEERS_HOME") or ROOT / "target/bench/peers-home").resolve()
    for folder in (out / "logs", home):
        folder.mkdir(parents=True, exist_ok=True)
    skipped = {} if chosen.no_install else install(found, home, out)
    redis = {}
    try:
        start_redis(redis, found, skipped)
        postgres = Postgres(os.environ["WINDLASS_TEST_POSTGRES"], os.environ.get("WINDLASS_TEST_PGDATA"), os.environ.get("WINDLASS_TEST_PGBIN"))
        ready = [system for system in found if system.name not in skipped]
        bench = schedule.Bench(out, home, postgres, redis, chosen.scale, chosen.timeout)
        describe(out, postgres, redis, found, skipped, wanted)
        run_all(bench, list(schedule.plan(ready, wanted, chosen.rounds)), chosen.resume)
    finally:
        for server in redis.values():
            server.stop()
    print(ratios.text([json.loads(path.read_text()) for path in sorted((out / "runs").glob("*/*.json"))]))
    return 0


def install(found, home, out):
    """Installs each folder once; system name -> why it is skipped."""
    reasons, skipped = {}, {}
    for system in found:
        if system.folder not in reasons:
            say(f"installing {system.peer['title']} {system.peer['version']}")
            reasons[system.folder] = systems.install(system.folder, home, out / "logs" / f"install-{system.folder.name}.log")
            if reasons[system.folder]:
                say(f"  skipped: {reasons[system.folder]}")
        if reasons[system.folder]:
            skipped[system.name] = reasons[system.folder]
    return skipped


def start_redis(started, found, skipped):
    """Adds server name -> Redis; where it cannot start, its systems join the skipped."""
    for server in sorted({system.server for system in found if system.name not in skipped} - {"postgres", "sqlite"}):
        try:
            started[server] = Redis(server)
        except (OSError, RuntimeError) as error:
            reason = str(error)
            say(f"{server}: {reason}: its systems are skipped")
            skipped |= {system.name: reason for system in found if system.server == server}


def describe(out, postgres, redis, found, skipped, wanted):
    """What the report needs besides the runs: the machine, the servers, and who is missing why."""
    absent = {system.name: {scenario.name: schedule.left_out(scenario, system) for scenario in wanted if schedule.left_out(scenario, system)} for system in found}
    about = {
        "machine": machine(),
        "servers": [postgres.version()] + sorted({server.version() for server in redis.values()}),
        "postgres_settings": postgres.settings(),
        "skipped": {system.name: {"title": system.title, "reason": skipped[system.name]} for system in found if system.name in skipped},
        "left_out": {name: reasons for name, reasons in absent.items() if reasons},
    }
    (out / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def run_all(bench, runs, resume):
    for number, (scenario, turn, system) in enumerate(runs, 1):
        record = bench.done(scenario, turn, system) if resume else None
        again = " (was there)" if record else ""
        record = record or bench.run(scenario, turn, system)
        if record["status"] == "ok":
            value = record["figures"].get(scenario.figure)
            shown = f"{value:,.0f} {scenario.figure}{again}" if value is not None else f"no figure {scenario.figure}"
        else:
            shown = f"{record['status']}: {record['reason']}"
        say(f"{number}/{len(runs)} {scenario.name} round {turn} {system.name}: {shown}")
