"""The charts as Vega-Lite: what they show and in which marks. draw.py turns them into SVG."""

import math

from bench import arithmetic
from bench.measure import ratios
from bench.report.theme import THEMES, WIDTH, apart, colours, config

OURS = "Windlass"
PERCENTILES = {"p50_us": "p50", "p90_us": "p90", "p95_us": "p95", "p99_us": "p99", "p999_us": "p99.9"}
# The left edge of the plot is the same in all bar charts, so that labels of different lengths do not move it.
LABELS, VALUES = 250, 80
LINES, HEIGHT = 545, 330


def charts(results):
    """name -> function of a theme, for each chart whose figures were measured."""
    drawn = {"drain": drain(results), "held": held(results), "latency": latency(results), "scaling": scaling(results)}
    return {name: chart for name, chart in drawn.items() if chart}


def specifications(results):
    """file stem -> Vega-Lite, light and dark."""
    return {f"{name}-{theme}": chart(colours_) for name, chart in charts(results).items() for theme, colours_ in THEMES.items()}


def whole(theme, title, subtitle, **parts):
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": title, "subtitle": subtitle},
        "config": config(theme),
        "padding": {"left": 4, "top": 4, "bottom": 4, "right": 20},  # a reader's font may be wider than the one measured
        **parts,
    }


def best_drains(results):
    """title, kind and the better of one and two processes, best first."""
    best = {}
    for name in ("drain", "drain-two"):
        for system, record, _, middle, _, _ in results.compare(name):
            if middle > best.get(system, (0,))[0]:
                best[system] = (middle, record)
    rows = [{"system": label(record), "rate": rate, "ours": system in ratios.OURS_TOO} for system, (rate, record) in best.items()]
    return sorted(rows, key=lambda row: -row["rate"])


def label(record):
    """The title; what is no job queue says so, unless its title does."""
    return record["title"] + (", events" if record["kind"] == "events" else "")


def drain(results):
    rows = best_drains(results)
    if not rows:
        return None
    for row in rows:
        row["text"] = arithmetic.number(row["rate"])
    scale = {"domain": [0, max(row["rate"] for row in rows)], "nice": False}
    machine = f"one machine, {results.machine['cores']} cores" if results.machine.get("cores") else "one machine"
    subtitle = f"each tuned by its own documentation, the better of 1 and 2 worker processes; {machine}"

    def chart(theme):
        colour = {"condition": {"test": "datum.ours", "value": theme["ours"]}, "value": theme["other"]}
        axis = {"title": None, "ticks": False, "labelColor": theme["ink"], "labelFontSize": 13, "labelLimit": LABELS, "labelPadding": 8, "minExtent": LABELS, "maxExtent": LABELS}
        encoding = {"y": {"field": "system", "type": "nominal", "sort": None, "axis": axis}, "x": {"field": "rate", "type": "quantitative", "axis": None, "scale": scale}}
        layers = [
            {"mark": {"type": "bar", "height": 20, "cornerRadiusEnd": 3}, "encoding": {"color": colour}},
            {"mark": {"type": "text", "align": "left", "dx": 6, "fontSize": 13}, "encoding": {"text": {"field": "text"}}},
        ]
        size = {"width": WIDTH - LABELS - VALUES, "height": {"step": 28}}
        return whole(theme, "No-op jobs drained per second", subtitle, data={"values": rows}, encoding=encoding, layer=layers, **size)

    return chart


def lines(theme, rows, ends, x, y, extra=()):
    """Lines named at their right ends: `rows` hold x, y and system; `ends` where each name goes."""
    scale = colours([end["system"] for end in ends], theme, OURS)
    colour = {"field": "system", "type": "nominal", "legend": None, "scale": {"domain": list(scale), "range": list(scale.values())}}
    width = {"condition": {"test": f"datum.system == '{OURS}'", "value": 3.5}, "value": 1.6}
    names = {"mark": {"type": "text", "align": "left", "dx": 8, "clip": False}, "data": {"values": ends}}
    names["encoding"] = {"x": {"value": LINES}, "y": y | {"field": "at"}, "text": {"field": "text"}, "color": colour}
    curve = {"mark": {"type": "line", "point": len(rows) < 200, "clip": True}, "data": {"values": rows}}
    curve["encoding"] = {"x": x, "y": y, "color": colour, "strokeWidth": width, "detail": {"field": "system"}}
    return [*extra, curve, names]


def ends(rows, height, domain):
    """Labels for the last point of each line, on a logarithmic scale, so far apart that they can be read."""
    last = {row["system"]: row["y"] for row in rows}
    low, high = (math.log10(edge) for edge in domain)
    gap = 15 * (high - low) / height
    places = apart([math.log10(value) for value in last.values()], gap)
    return [{"system": system, "text": system, "at": 10**place} for system, place in zip(last, places)]


def logarithmic(rows):
    values = [row["y"] for row in rows if row["y"] > 0]
    return [min(values) / 1.6, max(values) * 1.4]


def ticks(domain):
    """1, 10, 100: and 2, 5 between where the scale is short."""
    low, high = (math.log10(edge) for edge in domain)
    steps = (1,) if high - low > 2.5 else (1, 2, 5) if high - low < 1.6 else (1, 3)
    return [step * 10**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps if domain[0] <= step * 10**power <= domain[1]]


def smooth(series, span=5):
    """A trailing average over five seconds: single seconds jump with checkpoints."""
    return [sum(series[max(0, at - span + 1) : at + 1]) / len(series[max(0, at - span + 1) : at + 1]) for at in range(len(series))]


def held(results):
    rows, since = [], []
    for _, record, *_ in results.compare("held"):
        since.append(record["held_from_seconds"])
        whole_seconds = record["figures"]["per_second"][:-1]  # the last second is seldom a full one
        rows += [{"system": label(record), "x": at + 1, "y": value} for at, value in enumerate(smooth(whole_seconds)) if value > 0]
    if not rows:
        return None
    domain, second = logarithmic(rows), arithmetic.median(since)
    most = max(row["x"] for row in rows)
    subtitle = "enqueued and worked at once, average of 5 s, logarithmic; what sinks cannot clean up behind itself"

    def chart(theme):
        y = {"field": "y", "type": "quantitative", "scale": {"type": "log", "domain": domain}, "axis": {"title": "jobs per second", "values": ticks(domain), "format": "~s"}}
        x = {"field": "x", "type": "quantitative", "scale": {"domain": [0, most], "nice": False}, "axis": {"title": "seconds", "grid": False}}
        since_then, one = {"datum": second, "type": "quantitative"}, {"values": [{}]}
        rule = {"mark": {"type": "rule", "strokeDash": [4, 3], "color": theme["faint"]}, "data": one, "encoding": {"x": since_then}}
        words = {"mark": {"type": "text", "align": "left", "dx": 5, "dy": 2, "baseline": "top", "color": theme["faint"], "text": "another session holds a snapshot from here on"}}
        words["data"], words["encoding"] = one, {"x": since_then, "y": {"value": 0}}
        layers = lines(theme, rows, ends(rows, HEIGHT, domain), x, y, (rule, words))
        return whole(theme, "Throughput while another session holds a snapshot", subtitle, layer=layers, width=LINES, height=HEIGHT)

    return chart


def latency(results):
    rows = []
    for system, record, *_ in results.compare("latency"):
        runs = ratios.by_system(results.records, "latency")[system]
        for figure, name in PERCENTILES.items():
            value = arithmetic.median(run["figures"].get(figure) for run in runs)
            if value:
                rows.append({"system": label(record), "x": name, "y": value / 1000})
    if not rows:
        return None
    domain = logarithmic(rows)
    subtitle = "from the call of enqueue to the start of the handler, one job each 10 ms; each at its lowest-latency settings; logarithmic"

    def chart(theme):
        y = {"field": "y", "type": "quantitative", "scale": {"type": "log", "domain": domain}, "axis": {"title": "milliseconds", "values": ticks(domain), "format": "~g"}}
        x = {"field": "x", "type": "ordinal", "sort": list(PERCENTILES.values()), "scale": {"type": "point", "padding": 0.15}, "axis": {"title": None, "labelAngle": 0, "grid": False}}
        layers = lines(theme, rows, ends(rows, HEIGHT, domain), x, y)
        return whole(theme, "Latency, percentiles", subtitle, layer=layers, width=LINES, height=HEIGHT)

    return chart


def scaling(results):
    panels = [("drain-concurrency", "concurrency", "jobs at once"), ("drain-workers", "workers", "workers of 500"), ("drain-processes", "processes", "processes of 100")]
    rows = {name: sweep(results, name, setting) for name, setting, _ in panels}
    panels = [panel for panel in panels if rows[panel[0]]]
    if not panels:
        return None
    most = max(row["y"] for values in rows.values() for row in values) * 1.05
    subtitle = "our own sweeps on two cores that the server shares; the axis begins at zero"

    def chart(theme):
        sides = [panel(theme, rows[name], what, most, place) for place, (name, _, what) in enumerate(panels)]
        return whole(theme, "Windlass: drain throughput by concurrency, workers, processes", subtitle, hconcat=sides, spacing=18)

    return chart


def sweep(results, scenario, setting):
    points = {}
    for run in results.own:
        if run.get("scenario") == scenario:
            points.setdefault((run["store"].split()[0], run["settings"][setting]), []).append(run["figures"]["completed_per_second"])
    return [{"store": store, "x": str(at), "at": at, "y": arithmetic.median(values)} for (store, at), values in sorted(points.items())]


def panel(theme, rows, what, most, place):
    order = [row["x"] for row in sorted(rows, key=lambda row: row["at"])]
    y_axis = {"title": "jobs per second" if place == 0 else None, "format": "~s", "labels": place == 0, "tickCount": 5, "ticks": False}
    y = {"field": "y", "type": "quantitative", "scale": {"domain": [0, most]}, "axis": y_axis}
    x = {"field": "x", "type": "ordinal", "sort": order, "axis": {"title": what, "labelAngle": 0, "grid": False}, "scale": {"type": "point", "padding": 0.4}}
    legend = {"title": None, "orient": "top", "labelColor": theme["ink"], "labelFontSize": 13, "symbolType": "stroke", "symbolStrokeWidth": 3, "offset": 4}
    colour = {"field": "store", "type": "nominal", "legend": legend, "scale": {"domain": ["PostgreSQL", "SQLite"], "range": [theme["ours"], theme["lines"][0]]}}
    curve = {"mark": {"type": "line", "point": {"size": 45}, "strokeWidth": 2.5}, "data": {"values": rows}, "encoding": {"x": x, "y": y, "color": colour}}
    return curve | {"width": 360 if place == 0 else 185, "height": 240}
