"""The charts as Vega-Lite: which there are, and the bars of the first. draw.py turns them into SVG."""

from bench import arithmetic
from bench.measure import ratios
from bench.report.curves import held, latency
from bench.report.sweeps import scaling
from bench.report.theme import THEMES, WIDTH, label, whole

# The left edge of the plot is the same whatever the names are, so that it does not move between runs.
LABELS, VALUES = 250, 80


def charts(results):
    """name -> function of a theme, for each chart whose figures were measured."""
    drawn = {"drain": drain(results), "held": held(results), "latency": latency(results), "scaling": scaling(results)}
    return {name: chart for name, chart in drawn.items() if chart}


def specifications(results):
    """file stem -> Vega-Lite, light and dark."""
    return {f"{name}-{theme}": chart(colours_) for name, chart in charts(results).items() for theme, colours_ in THEMES.items()}


def best_drains(results):
    """title, kind and the better of one and two processes, best first."""
    best = {}
    for name in ("drain", "drain-two"):
        for system, record, _, middle, _, _ in results.compare(name):
            if middle > best.get(system, (0,))[0]:
                best[system] = (middle, record)
    rows = [{"system": label(record), "rate": rate, "ours": system in ratios.OURS_TOO} for system, (rate, record) in best.items()]
    return sorted(rows, key=lambda row: -row["rate"])


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
