"""Builds a report as one HTML file without scripts, which loads no other file."""

import html
import io
import pathlib
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEMPLATE = pathlib.Path(__file__).with_name("report_template.html")
_MOST_CHARS_OF_A_LABEL, _MOST_CHARS_OF_A_TEXT = 60, 300


class Html(str):
    """HTML; `join` and `tag` escape every other text."""


def join(*parts: object) -> Html:
    """Returns the parts, one after the other."""
    return Html("".join(part if isinstance(part, Html) else html.escape(str(part)) for part in parts))


def tag(name: str, *parts: object, **attributes: object) -> Html:
    """Returns an element of the parts; the attribute `class_` is `class` in HTML."""
    given = "".join(f' {key.strip("_")}="{html.escape(str(value))}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>{join(*parts)}</{name}>")


def table(header: Sequence[str], rows: Iterable[Sequence[object]], look: str = "") -> Html:
    """Returns a table, whose first column names the rows; a float has three digits after the point.

    A cell that is HTML is a whole element.
    """
    head = [tag("th", shortened(name), scope="col", dir="auto") for name in header]
    body = [
        tag("tr", tag("th", shortened(str(name)), scope="row", dir="auto"), *map(_cell, cells)) for name, *cells in rows
    ]
    return tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_=look), class_="wide")


def heat_map(counts: np.ndarray, labels: Sequence[str]) -> Html:
    """Returns a confusion matrix, int [C, C]: a row for each label, shaded by its shares of the row."""
    rows = []
    for label, in_row in zip(labels, counts.tolist(), strict=True):
        shades = [f"background: rgb(91 123 230 / {75 * count / max(sum(in_row), 1):.0f}%)" for count in in_row]
        cells = [tag("td", count or "", style=shade) for count, shade in zip(in_row, shades, strict=True)]
        rows.append([label, *cells])
    return table(["label \u2193 prediction \u2192", *labels], rows, "heat")


def text_list(items: Iterable[tuple[Sequence[object], Sequence[str | None]]]) -> Html:
    """Returns a list: facts of each example, and its texts below each other; None is ignored."""
    rows = []
    for facts, texts in items:
        above = tag("p", *(tag("span", fact, dir="auto") for fact in facts), class_="facts")
        below = [tag("p", shortened(text, _MOST_CHARS_OF_A_TEXT), dir="auto") for text in texts if text is not None]
        rows.append(tag("li", above, *below))
    return tag("ol", *rows, class_="texts")


def note(text: str) -> Html:
    return tag("p", text, class_="note")


def picture(draw: Callable[["Axes"], object], height: float = 2.5) -> Html:
    """Returns what `draw` plots on axes of 4.2 inches; black becomes the colour of the text around it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure, file = Figure(figsize=(4.2, height), layout="constrained", facecolor="none"), io.StringIO()
    draw(figure.subplots(subplot_kw={"facecolor": "none"}))
    # Texts stay texts, and the same figure gives the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        FigureCanvasSVG(figure).print_svg(file, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    _, start, rest = file.getvalue().partition("<svg")
    return tag("figure", Html(start + rest.replace("#000000", "currentColor")))


def page(title: str, lead: str, sections: Mapping[str, Html]) -> str:
    """Returns the whole page; `sections` are HTML by heading."""
    places = [(f"part{number}", heading) for number, heading in enumerate(sections)]
    return string.Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=join(title),
        lead=join(lead),
        links=join(*(tag("a", heading, href=f"#{place}") for place, heading in places)),
        sections=join(*(tag("section", tag("h2", name), sections[name], id=place) for place, name in places)),
    )


def shortened(text: str, length: int = _MOST_CHARS_OF_A_LABEL) -> str:
    """Returns at most so many characters of a text."""
    return text if len(text) <= length else f"{text[: length - 1]}\u2026"


def _cell(value: object) -> Html:
    text = f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
    return value if isinstance(value, Html) else tag("td", text)
