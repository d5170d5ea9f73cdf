"""Draws boxes, tokens, arrows and text in one style, in units of the page: pixels from the upper left corner.

Each `draw_NAME.py` in this folder has a function `figures()`, which returns figures, or bytes of a PNG, by the name of
the file. `draw.py` saves them.
"""

import io

import matplotlib.style
from cycler import cycler
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.textpath import TextPath
from PIL import Image

INK, MUTED, LINE, PAPER = "#1d2733", "#64748b", "#94a3b8", "#f8fafc"
# Light colours for boxes with text.
BLUE, GREEN, GREY, RED, YELLOW, VIOLET = "#dbeafe", "#dcfce7", "#e2e8f0", "#fecaca", "#fde68a", "#ddd6fe"
# Strong colours for lines, in an order in which neighbours differ for every reader.
STRONG = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#ca8a04")
SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"  # part of matplotlib
UNITS_PER_INCH = 100
DOTS_PER_UNIT = 2


class Canvas:
    """A white page of `width` x `height` units; y grows downwards."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / UNITS_PER_INCH, height / UNITS_PER_INCH))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.axis("off")

    def box(self, x, y, width, height, color="white", edge="none", text="", size=12.0, text_color=INK, weight="normal"):
        """Draws a rounded box with text in the middle."""
        style = "round,pad=0,rounding_size=4"
        patch = FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=color, edgecolor=edge, linewidth=0.8)
        self.axes.add_patch(patch)
        if text:
            middle = (x + width / 2, y + height / 2 + 0.5)
            self.write(*middle, text, size, color=text_color, align="center", weight=weight)

    def write(self, x, y, text, size, color=INK, align="left", font=SANS, weight="normal"):
        """Writes text whose middle has the height y; `size` is in units."""
        points = size * 72 / UNITS_PER_INCH
        written = self.axes.text(x, y, text, size=points, color=color, ha=align, va="center_baseline", family=font)
        written.set(weight=weight, parse_math=False)  # in mathematics, a dollar sign would begin a formula

    def line(self, *points, color=LINE, width=1.2, **options):
        self.axes.plot(*zip(*points, strict=True), color=color, linewidth=width, **options)

    def arrow(self, start, end):
        style = {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
        self.axes.annotate("", end, start, arrowprops=style)

    def circle(self, x, y, radius, text):
        self.axes.add_patch(Circle((x, y), radius, facecolor=INK, edgecolor="white", linewidth=2))
        self.write(x, y + 0.5, text, 10, color="white", align="center", weight="bold")

    def legend(self, x, y, entries, size=12):
        """Draws a row of colours with their names, from (name, colour) pairs."""
        for name, color in entries:
            self.box(x, y - 7, 14, 14, color, edge=LINE)
            self.write(x + 20, y, name, size)
            x += 20 + text_width(name, size) + 18


def text_width(text, size):
    """Returns the width of a line of text in units."""
    if not text:
        return 0.0
    return TextPath((0, 0), text, size=size, prop=FontProperties(family=SANS), usetex=False).get_extents().width


def plot_style():
    """Returns a context with the style of plots with axes."""
    return matplotlib.style.context(
        {
            "axes.edgecolor": LINE,
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 9.5,
            "axes.prop_cycle": cycler(color=STRONG),
        }
    )


def png(figure):
    """Returns a figure, or the bytes of a PNG, as a PNG of at most 256 colours, which has a third of the usual size."""
    if isinstance(figure, bytes):
        file = io.BytesIO(figure)
    else:
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=UNITS_PER_INCH * DOTS_PER_UNIT)
        file.seek(0)
    picture = Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    file = io.BytesIO()
    picture.save(file, format="png", optimize=True)
    return file.getvalue()
