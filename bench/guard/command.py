"""`scripts/bench-check`: builds both versions, runs the pairs, prints ratios; exit 1 when something became slower, 2 when it cannot tell."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from bench.guard import pairs, versions
from bench.measure.command import interrupted
from bench.measure.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "target/bench-check"


def say(text):
    print(text, file=sys.stderr, flush=True)


def main(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench-check", description=__doc__)
    parser.add_argument("base", nargs="?", default="", help="a tag, branch or commit; default: the newest release, else the commit before the changes")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs of each case (default 5)")
    parser.add_argument("--tolerance", type=float, default=pairs.TOLERANCE, help="how much slower every pair must be to count (default 0.10)")
    parser.add_argument("--median", type=float, help="also fail where the median of a case is slower by more than this, 0.03 for example")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose store and name contain this, 'postgres, enqueue one' for example")
    chosen = parser.parse_args(arguments)
    if not cases(chosen.only):
        parser.error(f"--only {chosen.only!r} leaves no case")
    if chosen.pairs < 1:
        parser.error("--pairs must be at least 1")
    try:
        name, commit = versions.resolve(ROOT, chosen.base)
        if "WINDLASS_TEST_POSTGRES" not in os.environ:
            os.environ["WINDLASS_TEST_SHARED_BUFFERS"] = "2GB"
            script = str(ROOT / "scripts/with-postgres")
            os.execv(script, [script, str(ROOT / "scripts/bench-check"), *arguments])
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGTERM, interrupted)
        return check(name, commit, chosen)
    except versions.Unusable as error:
        say(f"bench-check: {error}")
        return 2
    except KeyboardInterrupt:
        say("bench-check: interrupted")
        return 130


def check(name, commit, chosen):
    say(f"building {name} ({commit[:12]}) and this work tree")
    commands = {"base": versions.build(versions.checkout(ROOT, commit, OUT / "base"), OUT / "target")}
    commands["ours"] = versions.build(ROOT)
    postgres = Postgres(os.environ["WINDLASS_TEST_POSTGRES"], binaries=os.environ.get("WINDLASS_TEST_PGBIN"))
    results, left_out = [], []
    for store, case in cases(chosen.only):
        judged = compare(case, store, commands, postgres, chosen)
        (left_out if isinstance(judged, str) else results).append(judged)
    OUT.mkdir(parents=True, exist_ok=True)
    document = {"base": name, "commit": commit, "tolerance": chosen.tolerance, "results": results, "left_out": left_out}
    (OUT / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    return verdict(name, results, left_out, chosen.tolerance, chosen.median)


def cases(only):
    every = [(store, case) for store in (pairs.POSTGRES, pairs.SQLITE) for case in pairs.CASES]
    return [(store, case) for store, case in every if only in f"{store}, {case.name}"]


def compare(case, store, commands, postgres, chosen):
    """The judged case, or why it was left out."""

    def measure(who):
        if store == pairs.SQLITE:
            return pairs.run(commands[who], case)
        try:
            return pairs.run(commands[who], case, postgres.fresh("bench_check"))
        finally:
            postgres.drop("bench_check")

    try:  # once to warm up, and to see which version knows the case
        for who in ("base", "ours"):
            measure(who)
        judged = pairs.judge(case, store, pairs.pairs(chosen.pairs, measure), chosen.tolerance)
    except pairs.Refused as error:
        reason = f"{store}, {case.name}: left out: {error}"
        say(reason)
        return reason
    ratio = judged["ratio"]
    say(f"{store}, {case.name}: {ratio['median']:.2f}x ({ratio['least']:.2f} to {ratio['most']:.2f})")
    return judged


def verdict(name, results, left_out, tolerance, median=None):
    print(f"\nthis work tree / {name}; above 1 it is the faster; median (least to most of the pairs)")
    for each in results:
        ratio = each["ratio"]
        note = "  SLOWER" if each["slower"] else ""
        print(f"  {each['store']:9} {each['case']:32} {ratio['median']:.2f}x ({ratio['least']:.2f} to {ratio['most']:.2f}){note}")
    if not results:
        say("bench-check: no case ran in both versions: " + "; ".join(left_out))
        return 2
    slower = [each for each in results if each["slower"]]
    if slower:
        print(f"slower by more than {tolerance:.0%} in every pair: {', '.join(each['store'] + ' ' + each['case'] for each in slower)}")
        return 1
    print(f"nothing is slower by more than {tolerance:.0%} in every pair")
    below = [each for each in results if median is not None and each["ratio"]["median"] < 1 - median]
    if below:
        print(f"slower by more than {median:.0%} in the median: {', '.join(each['store'] + ' ' + each['case'] for each in below)}")
        return 1
    return 0
