"""Medians, spreads and ratios, as every table and chart here computes them."""

import statistics


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def spread(values):
    """(least, median, most); None without values."""
    known = [value for value in values if value is not None]
    return (min(known), median(known), max(known)) if known else None


def advantage(ours, theirs, more_is_better=True):
    """How many times better ours is: above 1 we are ahead, below 1 they are. None when either is missing or zero."""
    if not ours or not theirs:
        return None
    return ours / theirs if more_is_better else theirs / ours


def number(value):
    """A figure as a table shows it: three digits or so, thousands apart."""
    if value is None:
        return "-"
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:,.2f}M"
    if abs(value) >= 10_000:
        return f"{value / 1_000:,.0f}k" if abs(value) >= 100_000 else f"{value / 1_000:,.1f}k"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def times(ratio):
    """A ratio as a table shows it: 12x, 3.4x, 0.85x."""
    if ratio is None:
        return "-"
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x" if ratio >= 2 else f"{ratio:.2f}x"


def table(header, rows):
    """A Markdown table; the first column left, the others as they come."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
