"""Charts of many systems' lines, each named at its right end: throughput under a held snapshot, latency percentiles."""

import math

from bench import arithmetic
from bench.measure import ratios
from bench.report.theme import apart, colours, label, whole

OURS = "Windlass"
PERCENTILES = {"p50_us": "p50", "p90_us": "p90", "p95_us": "p95", "p99_us": "p99", "p999_us": "p99.9"}
LINES, HEIGHT = 545, 330


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


# More lines than these cannot be told apart; the tables have all.
QUICKEST = 8


def latency(results):
    rows = []
    for system, record, *_ in results.compare("latency")[:QUICKEST]:
        runs = ratios.by_system(results.records, "latency")[system]
        for figure, name in PERCENTILES.items():
            value = arithmetic.median(run["figures"].get(figure) for run in runs)
            if value:
                rows.append({"system": label(record), "x": name, "y": value / 1000})
    if not rows:
        return None
    domain = logarithmic(rows)
    subtitle = f"from enqueue to the start of the handler, one job each 10 ms, each at its lowest-latency settings; the {QUICKEST} quickest; logarithmic"

    def chart(theme):
        y = {"field": "y", "type": "quantitative", "scale": {"type": "log", "domain": domain}, "axis": {"title": "milliseconds", "values": ticks(domain), "format": "~g"}}
        x = {"field": "x", "type": "ordinal", "sort": list(PERCENTILES.values()), "scale": {"type": "point", "padding": 0.15}, "axis": {"title": None, "labelAngle": 0, "grid": False}}
        layers = lines(theme, rows, ends(rows, HEIGHT, domain), x, y)
        return whole(theme, "Latency, percentiles", subtitle, layer=layers, width=LINES, height=HEIGHT)

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
