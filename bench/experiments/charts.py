"""bench/experiments/charts.py - pictures with several panels: curves and stacked bars, as SVG.

"rubato plot" draws the curves of runs in one panel; this draws what it does not. The look is the
same. A picture is a grid of panels with one legend on the right.
"""

import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

GREY, LIGHT, DARK = "#52606d", "#e4e7eb", "#1f2933"
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 50, 52  # around the drawing area of a panel
HEAD, LEGEND_LINE = 44, 22


@dataclass
class Curve:
    name: str
    colour: str
    points: list  # of (x, y)
    dash: str = ""


@dataclass
class Curves:
    """A panel with curves. What lies more than `reach` above the lowest point is not shown."""
    title: str
    x_label: str
    y_label: str
    curves: list
    reach: float
    has_log_x: bool = False

    def keys(self):
        return [(curve.name, curve.colour, curve.dash) for curve in self.curves]

    def ranges(self):
        xs = [x for curve in self.curves for x, _ in curve.points]
        low = min(y for curve in self.curves for _, y in curve.points)
        x_low = 0.94 * min(xs) if self.has_log_x else 0.0
        return (x_low, 1.02 * max(xs)), (low - 0.06 * self.reach, low + self.reach)

    def draw(self, frame):
        parts = []
        for curve in self.curves:
            places = [(frame.x(x), frame.y(y)) for x, y in curve.points]
            dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline fill="none" stroke="{curve.colour}" stroke-width="2" '
                         f'stroke-linejoin="round"{dash} points="{points}"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{curve.colour}"/>'
                      for x, y in places]
        return parts

    def x_ticks(self, frame):
        choose = log_ticks if self.has_log_x else ticks
        return [(frame.x(value), words) for value, words in choose(*frame.x_range, 5)]


@dataclass
class Bars:
    """A panel with stacked bars: `stacks` holds, per name on the x axis, one value per part."""
    title: str
    x_label: str
    y_label: str
    names: list
    stacks: list
    parts: list  # of (name, colour), from the bottom up
    top: float | None = None
    notes: list = field(default_factory=list)  # above the bars
    shows_keys: bool = True
    has_log_x = False

    def keys(self):
        return [(name, colour, "") for name, colour in reversed(self.parts)] * self.shows_keys

    def ranges(self):
        highest = max(sum(stack) for stack in self.stacks) * 1.1
        return (0.0, float(len(self.names))), (0.0, self.top or highest)

    def draw(self, frame):
        parts = []
        for i, stack in enumerate(self.stacks):
            below = 0.0
            for value, (_, colour) in zip(stack, self.parts):
                x, width = frame.x(i + 0.17), frame.x(i + 0.83) - frame.x(i + 0.17)
                y, height = frame.y(below + value), frame.y(below) - frame.y(below + value)
                parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                             f'height="{height:.1f}" fill="{colour}"/>')
                below += value
            if self.notes:
                parts.append(text(frame.x(i + 0.5), frame.y(below) - 5, self.notes[i], size=11))
        return parts

    def x_ticks(self, frame):
        return [(frame.x(i + 0.5), name) for i, name in enumerate(self.names)]


class Frame:
    """Where a panel's drawing area is, and where values lie in it."""

    def __init__(self, left, top, width, height, panel):
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x_range, self.y_range = panel.ranges()
        self.x_scale = math.log if panel.has_log_x else float

    def x(self, value):
        low, high, value = (self.x_scale(number) for number in (*self.x_range, value))
        return self.left + (value - low) / (high - low) * self.width

    def y(self, value):
        low, high = self.y_range
        return self.top + (1 - (value - low) / (high - low)) * self.height


def text(x, y, words, size=12, anchor="middle", colour=GREY, weight="400"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}" font-weight="{weight}">{escape(str(words))}</text>')


def line(x1, y1, x2, y2, colour, width=1.0, dash=""):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"{dashes}/>')


def ticks(low, high, count):
    """Round values within the range, with their texts."""
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(i * step, f"{i * step:,.{digits}f}") for i in range(first, last + 1)]


def log_ticks(low, high, _):
    """1, 2 and 5 times powers of ten within the range, with their texts."""
    values = [factor * 10.0 ** power for power in range(-9, 10) for factor in (1, 2, 5)]
    return [(value, f"{value:g}") for value in values if low <= value <= high]


def draw_axes(panel, frame):
    bottom, right = frame.top + frame.height, frame.left + frame.width
    parts = []
    if panel.has_log_x:
        parts += [line(x, frame.top, x, bottom, LIGHT) for x, _ in panel.x_ticks(frame)]
    for value, words in ticks(*frame.y_range, 5):
        y = frame.y(value)
        parts.append(line(frame.left, y, right, y, LIGHT))
        parts.append(text(frame.left - 7, y + 4, words, anchor="end"))
    parts += [text(x, bottom + 18, words) for x, words in panel.x_ticks(frame)]
    parts.append(f'<path d="M{frame.left:.1f} {frame.top:.1f}V{bottom:.1f}H{right:.1f}" '
                 f'fill="none" stroke="#7b8794" stroke-width="1.2"/>')
    parts.append(text(frame.left + frame.width / 2, bottom + 38, panel.x_label))
    parts.append(text(frame.left - LEFT + 8, frame.top - 10, panel.y_label, anchor="start"))
    parts.append(text(frame.left - LEFT + 8, frame.top - 29, panel.title, size=14, anchor="start",
                      colour=DARK, weight="600"))
    return parts


def draw_legend(keys, left, top):
    parts = []
    for i, (name, colour, dash) in enumerate(keys):
        y = top + i * LEGEND_LINE
        parts.append(line(left, y, left + 22, y, colour, 4, dash))
        parts.append(text(left + 30, y + 4.5, name, size=13, anchor="start", colour=DARK))
    return parts


def draw_panel(panel, frame, index):
    clip = (f'<clipPath id="p{index}"><rect x="{frame.left:.1f}" y="{frame.top:.1f}" '
            f'width="{frame.width + 4:.1f}" height="{frame.height:.1f}"/></clipPath>')
    return [*draw_axes(panel, frame), clip, f'<g clip-path="url(#p{index})">', *panel.draw(frame),
            "</g>"]


def write(path, title, rows, panel_size=(300, 290), legend_width=150):
    """Writes a picture; `rows` are lists of panels."""
    width = max(len(row) for row in rows) * panel_size[0] + legend_width
    height = HEAD + len(rows) * panel_size[1]
    parts = [text(8, 29, title, size=17, anchor="start", colour=DARK, weight="600")]
    keys = []
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            frame = Frame(j * panel_size[0] + LEFT, HEAD + i * panel_size[1] + TOP,
                          panel_size[0] - LEFT - RIGHT, panel_size[1] - TOP - BOTTOM, panel)
            parts += draw_panel(panel, frame, i * len(row) + j)
            keys += [key for key in panel.keys() if key not in keys]
    parts += draw_legend(keys, width - legend_width + 12, HEAD + TOP + 8)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Inter, \'Helvetica Neue\', '
        f'\'DejaVu Sans\', Arial, sans-serif">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts) + "\n</svg>\n", encoding="utf-8")
