"""Pictures for the docs, without a library: bars of shares, and curves over a logarithmic axis."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#3c8d5a", "#7a5195", "#777777")
STYLE = 'font-family="sans-serif" font-size="12" fill="#222222"'


def text(x, y, content, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(str(content))}</text>'


def document(width, height, title, caption, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">'
            f"<title>{escape(title)}</title>"
            f'<rect width="{width}" height="{height}" fill="#ffffff"/><g {STYLE}>')
    return "\n".join([head, text(12, 22, title, 'font-size="15" font-weight="bold"'),
                      text(12, 40, caption, 'font-size="11" fill="#666666"'), *parts,
                      "</g></svg>"]) + "\n"


def legend(names, x, y):
    parts = []
    for i, name in enumerate(names):
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" '
                     f'fill="{COLOURS[i % len(COLOURS)]}"/>')
        parts.append(text(x + 14, y, name))
        x += 24 + 7 * len(name)
    return parts


def share_bars(title, caption, engines, rows):
    """Horizontal bars. `rows`: [(label, {engine: share of the limit})]; what is missing has no
    bar."""
    left, width, bar = 270, 820, 13
    scale = (width - left - 60) / max([1.0] + [s for _, shares in rows for s in shares.values()])
    y, parts = 76, legend(engines, 12, 60)
    top = y
    for label, shares in rows:
        present = [e for e in engines if e in shares]
        parts.append(text(left - 8, y + bar * max(len(present), 1) / 2 + 4, label,
                          'text-anchor="end"'))
        for engine in present:
            length = max(shares[engine] * scale, 1)
            colour = COLOURS[engines.index(engine) % len(COLOURS)]
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" '
                         f'fill="{colour}"/>')
            parts.append(text(left + length + 4, y + bar - 3, f"{100 * shares[engine]:.0f} %",
                              'font-size="10"'))
            y += bar
        y += 12 + (0 if present else bar)
    for share in (0.25, 0.5, 0.75, 1.0):
        x = left + share * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{y}" stroke="#222222" '
                     f'stroke-opacity="{0.6 if share == 1.0 else 0.15}"/>')
        parts.append(text(x, y + 14, f"{share:.0%}".replace("%", " %"), 'text-anchor="middle"'))
    return document(width, y + 30, title, caption, parts)


def ticks(low, high):
    """Powers of two, or of ten where they would be many, that cover a range above zero."""
    base = 2 if high / low <= 2048 else 10
    first = math.floor(math.log(low, base) + 1e-9)
    last = math.ceil(math.log(high, base) - 1e-9)
    return [base ** k for k in range(first, max(last, first + 1) + 1)]


def short(value):
    for size, suffix in ((1_000_000, "M"), (1000, "k")):
        if value >= 10 * size or (value >= size and value % size == 0):
            return f"{value / size:.3g}{suffix}"
    return f"{value:g}"


def curves(title, caption, x_label, y_label, series):
    """Lines with both axes logarithmic. `series`: {name: [(x, y)]}, all above zero."""
    width, height, left, right, top, bottom = 720, 420, 70, 20, 76, 50
    points = [p for line in series.values() for p in line if p[0] > 0 and p[1] > 0]
    if not points:
        return document(width, 80, title, "no measurement", [])
    xs, ys = ticks(*span(p[0] for p in points)), ticks(*span(p[1] for p in points))

    def place(value, scale, begin, end):
        low, high = math.log(scale[0]), math.log(scale[-1])
        return begin + (math.log(value) - low) / (high - low) * (end - begin)

    at_x = lambda v: place(v, xs, left, width - right)  # noqa: E731
    at_y = lambda v: place(v, ys, height - bottom, top)  # noqa: E731
    parts = legend(list(series), 12, 60)
    for x in xs:
        parts.append(f'<line x1="{at_x(x):.1f}" x2="{at_x(x):.1f}" y1="{top}" '
                     f'y2="{height - bottom}" stroke="#222222" stroke-opacity="0.12"/>')
        parts.append(text(at_x(x), height - bottom + 16, short(x), 'text-anchor="middle"'))
    for y in ys:
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{at_y(y):.1f}" '
                     f'y2="{at_y(y):.1f}" stroke="#222222" stroke-opacity="0.12"/>')
        parts.append(text(left - 6, at_y(y) + 4, short(y), 'text-anchor="end"'))
    parts.append(text((left + width) / 2, height - 12, x_label, 'text-anchor="middle"'))
    parts.append(text(16, (top + height - bottom) / 2, y_label,
                      f'text-anchor="middle" transform="rotate(-90 16 '
                      f'{(top + height - bottom) / 2:.0f})"'))
    for i, line in enumerate(series.values()):
        colour = COLOURS[i % len(COLOURS)]
        places = [(at_x(x), at_y(y)) for x, y in sorted(line) if x > 0 and y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    return document(width, height, title, caption, parts)


def span(values):
    values = list(values)
    return min(values), max(values)
