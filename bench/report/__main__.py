"""`make bench-report`: target/bench -> bench/results -> BENCHMARKS.md and docs/bench/*.svg."""

import argparse
import sys
from pathlib import Path

from bench.report.charts import charts, specifications
from bench.report.collect import Unreadable, collect
from bench.report.draw import NoCharts, draw
from bench.report.page import page
from bench.report.results import Results

ROOT = Path(__file__).resolve().parents[2]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m bench.report", description=__doc__)
    parser.add_argument("--source", type=Path, default=ROOT / "target/bench", help="what the runs wrote")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results", help="the committed figures, renewed by what is in --source")
    parser.add_argument("--page", type=Path, default=ROOT / "BENCHMARKS.md")
    parser.add_argument("--charts", type=Path, default=ROOT / "docs/bench")
    parser.add_argument("--no-charts", action="store_true", help="leave the charts as they are; nothing is installed")
    chosen = parser.parse_args(arguments)
    try:
        for path in collect(chosen.source, chosen.results):
            print(f"collected {path}")
    except Unreadable as error:
        print(f"bench-report: {error}", file=sys.stderr)
        return 2
    results = Results.load(chosen.results)
    if not results.own and not results.records:
        print(f"bench-report: no figures in {chosen.results} nor {chosen.source}; run make bench or make bench-peers first", file=sys.stderr)
        return 2
    chosen.page.write_text(page(results, charts(results)))
    print(f"wrote {chosen.page}")
    if not chosen.no_charts:
        try:
            draw(specifications(results), chosen.charts)
        except NoCharts as error:
            print(f"bench-report: the charts are left as they were: {error}", file=sys.stderr)
            return 1
        print(f"drew {chosen.charts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
