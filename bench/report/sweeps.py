"""Our own drain by concurrency, workers and processes, side by side on one axis."""

from bench import arithmetic
from bench.report.theme import whole


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
