"""Charts as inline SVG. The charts need no script, and each chart contains a description for screen readers."""
import html
from typing import List, Sequence, Tuple

WIDTH = 720  #: width of a chart in pixels
HEIGHT = 180  #: height of a line chart in pixels
_LEFT = 70  # width of the labels beside a line
_BOTTOM = 24  # height of the labels below a line
_MOST_POINTS = 720
_BAR = 22


def line_chart(title: str, points: Sequence[Tuple[float, float]], unit: str) -> str:
    """Return a line chart.

    Args:
        title: description of the values.
        points: (seconds since the start, value), in the order of time. Values are at least 0.
        unit: unit of the values.
    """
    points = points[::max(1, -(-len(points) // _MOST_POINTS))]
    most = max((value for _, value in points), default=0.0) or 1.0
    first = points[0][0] if points else 0.0
    length = (points[-1][0] - first if points else 0.0) or 1.0
    placed = " ".join("{:.1f},{:.1f}".format(
        _LEFT + (WIDTH - _LEFT) * (at - first) / length, 8 + (HEIGHT - 8 - _BOTTOM) * (1 - value / most))
        for at, value in points)
    mean = sum(value for _, value in points) / max(1, len(points))
    label = "{}: mean {:,.1f}, highest {:,.1f} {}".format(title, mean, most if points else 0.0, unit)
    return _figure(label, HEIGHT, [
        '<polyline class="line" points="{}"/>'.format(placed),
        '<text x="{}" y="16" class="axis">{:,.4g}</text>'.format(_LEFT - 6, most),
        '<text x="{}" y="{}" class="axis">0</text>'.format(_LEFT - 6, HEIGHT - _BOTTOM),
        '<text x="{}" y="{}" class="axis">{:,.0f} s</text>'.format(WIDTH, HEIGHT - 6, length)])


def bars(title: str, shares: Sequence[Tuple[str, float]]) -> str:
    """Return horizontal bars. ``shares`` contains a pair (label, share in [0, 1]) for each bar."""
    parts: List[str] = []
    for number, (label, share) in enumerate(shares):
        y = 4 + _BAR * number
        share = min(1.0, max(0.0, share))
        parts += ['<rect class="bar" x="200" y="{}" width="{:.1f}" height="{}"/>'.format(y, 420 * share, _BAR - 6),
                  '<text x="194" y="{}" class="axis">{}</text>'.format(y + 13, html.escape(label)),
                  '<text x="{:.1f}" y="{}">{:.1f} %</text>'.format(206 + 420 * share, y + 13, 100 * share)]
    text = ", ".join("{} {:.1f} %".format(label, 100 * share) for label, share in shares)
    return _figure("{}: {}".format(title, text), 8 + _BAR * len(shares), parts)


def _figure(label: str, height: int, parts: Sequence[str]) -> str:
    escaped = html.escape(label)
    return ('<figure><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg><figcaption>{}</figcaption></figure>'
            .format(WIDTH, height, escaped, "".join(parts), escaped))
