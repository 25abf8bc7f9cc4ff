"""What all charts share: colours and sizes for a light and a dark page, whose background is the page's own; names; where labels go."""

WIDTH = 830  # how wide a README shows a picture
THEMES = {
    "light": {
        "ink": "#1f2328", "faint": "#59636e", "grid": "#d1d9e0", "ours": "#0f766e", "other": "#a8b3bd",
        "lines": ["#c2410c", "#1d4ed8", "#7e22ce", "#a16207", "#be185d", "#0369a1", "#4d7c0f", "#475569", "#b91c1c", "#111827", "#db2777", "#713f12"],
    },
    "dark": {
        "ink": "#f0f6fc", "faint": "#9198a1", "grid": "#3d444d", "ours": "#2dd4bf", "other": "#59636e",
        "lines": ["#fb923c", "#60a5fa", "#c084fc", "#facc15", "#f472b6", "#38bdf8", "#a3e635", "#94a3b8", "#f87171", "#f9fafb", "#fda4af", "#d6a56b"],
    },
}  # fmt: skip
# Fonts that a browser has; the drawing measures text itself and needs none of them.
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def config(theme):
    axis = {"labelColor": theme["faint"], "titleColor": theme["faint"], "domain": False, "tickColor": theme["grid"], "gridColor": theme["grid"]}
    axis |= {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelFont": FONT, "titleFont": FONT, "gridOpacity": 0.6}
    title = {"color": theme["ink"], "subtitleColor": theme["faint"], "fontSize": 16, "subtitleFontSize": 12.5, "anchor": "start", "offset": 14}
    return {
        "background": None,
        "font": FONT,
        "axis": axis,
        "title": title | {"font": FONT, "subtitleFont": FONT, "frame": "bounds", "subtitlePadding": 6},
        "view": {"stroke": None},
        "text": {"font": FONT, "fontSize": 12.5, "color": theme["ink"]},
    }


def colours(names, theme, ours):
    """A colour for each line, ours (on any store) its own, always the same for the same names."""
    others = sorted(name for name in names if not name.startswith(ours))
    return {name: theme["lines"][others.index(name) % len(theme["lines"])] if name in others else theme["ours"] for name in names}


def apart(values, gap):
    """Where labels go so that each is near its value and no two are closer than the gap; any order."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    clusters = []  # [centre of its values, members]; clusters that would overlap become one
    for index in order:
        clusters.append([values[index], [index]])
        while len(clusters) > 1 and overlap(clusters[-2], clusters[-1], gap):
            (_, lower), (_, upper) = clusters[-2], clusters[-1]
            members = lower + upper
            clusters[-2:] = [[sum(values[member] for member in members) / len(members), members]]
    placed = [0.0] * len(values)
    for centre, members in clusters:
        for position, member in enumerate(members):
            placed[member] = centre + gap * (position - (len(members) - 1) / 2)
    return placed


def overlap(lower, upper, gap):
    return upper[0] - lower[0] < gap * (len(lower[1]) + len(upper[1])) / 2


def whole(theme, title, subtitle, **parts):
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": title, "subtitle": subtitle},
        "config": config(theme),
        "padding": {"left": 4, "top": 4, "bottom": 4, "right": 20},  # a reader's font may be wider than the one measured
        **parts,
    }


def label(record):
    """The title; what is no job queue says so, unless its title does."""
    return record["title"] + (", events" if record["kind"] == "events" else "")
