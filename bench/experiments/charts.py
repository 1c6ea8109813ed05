"""bench/experiments/charts.py - pictures with several panels, drawn with matplotlib as SVG.

"rubato plot" draws the curves of runs in one panel; this draws what it does not. A picture has a
title that says what to see, a line that says what is shown, a grid of panels, and one legend below.

Texts stay texts in the file, so that they can be read aloud and searched for. A reader's browser
takes the first font of the list that it has; places are measured with DejaVu Sans, which is wider
than the others. A picture in which a text is cut, or covers another text, is refused. Equal
pictures give equal bytes.
"""

import io
import math
import re
from dataclasses import dataclass, field
from itertools import combinations

from matplotlib import rc_context, ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

GREY, LIGHT, DARK = "#52606d", "#e4e7eb", "#1f2933"
WIDTH = 9.0  # inches, of 72 points; 864 pixels, about what a page of a repository shows
GAP = 7.0  # points between title, panels and legend, and around all
MEASURED = "DejaVu Sans"
FONTS = f"'{MEASURED}', 'Helvetica Neue', Arial, sans-serif"
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "rubato",
    "font.family": MEASURED,
    "font.size": 9.0, "text.color": DARK, "axes.labelcolor": GREY, "axes.labelsize": 9.0,
    "axes.titlesize": 9.5, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.titlepad": 6.0, "axes.edgecolor": "#7b8794", "axes.spines.top": False,
    "axes.spines.right": False, "axes.axisbelow": True, "grid.color": LIGHT, "grid.linewidth": 0.8,
    "xtick.color": GREY, "ytick.color": GREY, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5,
    "xtick.major.size": 3.0, "ytick.major.size": 0.0, "lines.linewidth": 1.6,
    "lines.markersize": 3.6, "lines.markeredgewidth": 0.0,
    "legend.frameon": False, "legend.fontsize": 9.0, "legend.handlelength": 2.6,
    "legend.borderaxespad": 0.0, "legend.borderpad": 0.0, "legend.columnspacing": 1.6,
}


@dataclass
class Curve:
    name: str
    colour: str
    points: list  # of (x, y)
    marker: str = "o"
    dash: str = "-"


@dataclass
class Curves:
    """A panel with curves. What lies outside of `y_range` is not shown."""
    title: str
    x_label: str
    y_label: str
    curves: list
    x_range: tuple | None = None
    y_range: tuple | None = None
    has_log_x: bool = False
    has_log_y: bool = False
    has_steps: bool = False  # a value holds until the next point, instead of a straight line
    target: tuple | None = None  # a level to reach, and its name
    marks: list = field(default_factory=list)  # of (x, colour): vertical lines

    def is_seen(self, curve):
        """A curve with all points outside of the panel is left out, of the legend, too."""
        low, high = self.y_range or (-math.inf, math.inf)
        return any(low <= y <= high for _, y in curve.points)

    def draw(self, axes):
        for axis, is_log in ((axes.xaxis, self.has_log_x), (axes.yaxis, self.has_log_y)):
            if is_log:
                use_log(axis)
            else:
                use_round(axis)
        for curve in filter(self.is_seen, self.curves):
            axes.plot(*zip(*curve.points), label=curve.name, color=curve.colour,
                      marker=curve.marker, linestyle=curve.dash,
                      drawstyle="steps-post" if self.has_steps else "default")
        if self.target is not None:
            axes.axhline(self.target[0], color=DARK, linewidth=0.9, linestyle=":",
                         label=self.target[1])
        for x, colour in self.marks:
            axes.axvline(x, color=colour, linewidth=1.2, linestyle=":")
        axes.grid(True)
        if self.x_range is not None:
            axes.set_xlim(*self.x_range)
        if self.y_range is not None:
            axes.set_ylim(*self.y_range)


@dataclass
class Bars:
    """A panel with stacked bars, one for each name on the x axis."""
    title: str
    x_label: str
    y_label: str
    names: list
    parts: list  # of (name, colour, a value for each bar), from the bottom up
    notes: list  # above the bars
    shows_keys: bool = True

    def draw(self, axes):
        bottom = [0.0] * len(self.names)
        for name, colour, values in self.parts:
            axes.bar(self.names, values, 0.7, bottom, color=colour,
                     label=name if self.shows_keys else None)
            bottom = [below + value for below, value in zip(bottom, values)]
        for i, note in enumerate(self.notes):
            axes.annotate(note, (i, bottom[i]), (0, 2), textcoords="offset points", ha="center",
                          color=DARK, fontsize=8.5)
        axes.set_ylim(0, 1.13 * max(bottom))
        use_round(axes.yaxis)
        axes.tick_params(axis="x", length=0)
        axes.grid(True, axis="y")


@dataclass
class Layout:
    rows: list  # of lists of panels
    panel_height: float  # inches
    shares_y: bool = False  # within a row


class Unreadable(ValueError):
    """A text in a picture is cut, or covers another one."""


def use_round(axis):
    """Round numbers with as many decimals as their distance needs."""
    class Formatter(ticker.Formatter):
        def __call__(self, x, pos=None):
            step = self.locs[1] - self.locs[0] if len(self.locs) > 1 else 1.0
            return f"{x:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"

    axis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(Formatter())


def use_log(axis):
    """1, 2 and 5 times powers of ten; only the powers if the labels of all have no room."""
    is_x = axis.axis_name == "x"

    class Locator(ticker.LogLocator):
        def tick_values(self, vmin, vmax):
            low, high = sorted((vmin, vmax))
            box = axis.axes.bbox
            room = box.width / 32 if is_x else box.height / 14
            self.subs((1.0, 2.0, 5.0) if 3 * math.log10(high / low) <= room else (1.0,))
            return super().tick_values(vmin, vmax)

    axis.axes.set(**{"xscale" if is_x else "yscale": "log"})
    axis.set_major_locator(Locator(numticks=15))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(ticker.NullLocator())


def draw_panels(figure, layout):
    """Axis labels stand once where they are equal: below the last row, left of the first column."""
    rows = layout.rows
    grid = figure.subplots(len(rows), max(len(row) for row in rows), squeeze=False)
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            axes = grid[i][j]
            panel.draw(axes)
            axes.set_title(panel.title)
            if i + 1 == len(rows) or rows[i + 1][j].x_label != panel.x_label:
                axes.set_xlabel(panel.x_label)
            if j == 0 or row[j - 1].y_label != panel.y_label:
                axes.set_ylabel(panel.y_label)
        if layout.shares_y:
            share_y(grid[i][:len(row)])
    for axes in (axes for row in grid for axes in row if not axes.has_data()):
        axes.remove()


def share_y(row):
    """One range for all panels of a row, and its numbers at the first."""
    ranges = [axes.get_ylim() for axes in row]
    for axes in row:
        axes.set_ylim(min(low for low, _ in ranges), max(high for _, high in ranges))
        axes.tick_params(labelleft=axes is row[0])


def draw_legend(figure):
    """All names once, line by line, in as many columns as there is room for."""
    found = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels()):
            found.setdefault(name, handle)
    if not found:
        return None
    room = (WIDTH - 2 * GAP / 72) * figure.dpi
    for columns in range(len(found), 0, -1):
        names = [name for i in range(columns) for name in list(found)[i::columns]]
        legend = figure.legend([found[name] for name in names], names, loc="lower center",
                               ncol=columns, bbox_to_anchor=(0.5, 0))
        if legend.get_window_extent().width <= room:
            return legend
        legend.remove()
    raise Unreadable("a name in the legend is wider than the picture")


def lay_out(figure, title, note, panels_height):
    """The picture is as high as its parts are; panels get what is between title and legend."""
    texts = [figure.text(0, 1, title, fontsize=12.5, fontweight="bold", va="top"),
             figure.text(0, 1, note, fontsize=9.5, color=GREY, va="top")]
    legend = draw_legend(figure)
    inches = [part.get_window_extent().height / figure.dpi if part else 0.0
              for part in (*texts, legend)]
    gap = GAP / 72
    head, foot = inches[0] + inches[1] + 3 * gap, inches[2] + 2 * gap
    height = head + panels_height + foot
    figure.set_size_inches(WIDTH, height)
    texts[0].set_position((gap / WIDTH, 1 - gap / height))
    texts[1].set_position((gap / WIDTH, 1 - (inches[0] + 1.7 * gap) / height))
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, gap / height))
    figure.set_layout_engine("constrained", rect=(
        gap / WIDTH, foot / height, 1 - 2 * gap / WIDTH, 1 - (head + foot) / height),
        w_pad=0.05, h_pad=0.05, wspace=0.02, hspace=0.03)
    figure.canvas.draw()


def texts_of(figure):
    """All texts that are drawn. Labels of ticks outside of a panel are there, but are not."""
    labels, drawn = set(), []
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        drawn += [label for place, label in zip(axis.get_majorticklocs(), axis.get_ticklabels())
                  if low <= place <= high]
        labels.update(label for tick in axis.majorTicks + axis.minorTicks
                      for label in (tick.label1, tick.label2))
    drawn += [text for text in figure.findobj(Text) if text not in labels]
    return [text for text in drawn if text.get_visible() and text.get_text()]


def check(figure):
    """No text is cut, and none covers another one."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    whole = figure.bbox
    for words, box in boxes:
        if box.x0 < 0 or box.y0 < 0 or box.x1 > whole.x1 or box.y1 > whole.y1:
            raise Unreadable(f'the text "{words}" is cut')
    for (words, box), (others, other) in combinations(boxes, 2):
        if box.overlaps(other):
            raise Unreadable(f'the texts "{words}" and "{others}" cover each other')


def shorten(svg):
    """Places have two decimals of a point, which also rounds off what differs from run to run in
    the last of a double's digits; names that are made of such digits are numbered instead."""
    def rounded(tag):
        return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag[0])

    svg = re.sub(r"<[^>]*>", rounded, svg).replace(f"'{MEASURED}'", FONTS)
    for i, name in enumerate(dict.fromkeys(re.findall(r"\b[pm][0-9a-f]{10}\b", svg))):
        svg = svg.replace(name, f"{name[0]}{i}")
    return "".join(line.rstrip() + "\n" for line in svg.splitlines())


def write(path, title, note, layout):
    """Writes a picture: a title that says what to see, a note that says what is shown, panels."""
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4), dpi=72)
        FigureCanvasAgg(figure)  # it measures texts; the picture itself is drawn as SVG
        draw_panels(figure, layout)
        lay_out(figure, title, note, len(layout.rows) * layout.panel_height)
        check(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg",
                       metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    path.write_text(shorten(file.getvalue()), encoding="utf-8")
