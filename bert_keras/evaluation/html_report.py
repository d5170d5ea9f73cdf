"""Builds a report as one HTML file without scripts, which loads no other file."""

import html
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = pathlib.Path(__file__).with_name("report.css")
# Nothing loads or runs, even if a text of the user became a part of the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_MOST_CHARS_OF_A_LABEL, _MOST_CHARS_OF_A_TEXT = 60, 300


class Html(str):
    """HTML; `tag` escapes every other text."""


def tag(name: str, *content: object, **attributes: object) -> Html:
    """Returns an element; a name such as `class_` or `aria_label` is that of an attribute in HTML."""
    inner = "".join(part if isinstance(part, Html) else html.escape(str(part)) for part in content)
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{inner}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Returns all parts, one after the other."""
    return Html("".join(part if isinstance(part, Html) else html.escape(str(part)) for part in parts))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Returns a table, whose first column names the rows; a float has three digits after the point."""
    head = tag("tr", *(tag("th", name, scope="col") for name in header))
    body = [
        tag(
            "tr", tag("th", shortened(str(name)), scope="row", dir="auto"), *(tag("td", _shown(cell)) for cell in cells)
        )
        for name, *cells in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="wide")


def heat_map(counts: np.ndarray, labels: Sequence[str]) -> Html:
    """Returns a confusion matrix, int [C, C]: a row for each label, shaded by its shares of the row."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [tag("th", tag("span", shortened(label)), scope="col", dir="auto") for label in labels]
    rows = [
        tag(
            "tr",
            _row_name(label),
            *(
                tag("td", count or "", style=f"--share: {share:.3f}")
                for count, share in zip(of_label.tolist(), shares_of_label, strict=True)
            ),
        )
        for label, of_label, shares_of_label in zip(labels, counts, shares, strict=True)
    ]
    head = tag("tr", tag("th", "label \u2193 prediction \u2192", scope="col"), *names)
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="heat"), class_="wide")


def text_list(items: Iterable[tuple[Sequence[object], Sequence[str | None]]]) -> Html:
    """Returns a list: facts of each example, and its texts below each other; None is ignored."""
    rows = [
        tag(
            "li",
            tag("p", *(tag("span", fact, dir="auto") for fact in facts), class_="facts"),
            *(tag("p", shortened(text, _MOST_CHARS_OF_A_TEXT), dir="auto") for text in texts if text is not None),
        )
        for facts, texts in items
    ]
    return tag("ol", *rows, class_="texts")


def new_figure(width: float = 4.2, height: float = 2.5) -> "Figure":
    """Returns a figure of matplotlib for `drawing`, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="none")


def drawing(figure: "Figure", description: str) -> Html:
    """Returns a figure whose black parts have the colour of the text around it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for axes in figure.axes:
        axes.set_facecolor("none")
    file = io.StringIO()
    # Texts stay texts, and the same figure gives the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        FigureCanvasSVG(figure).print_svg(file, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = file.getvalue()
    return tag("figure", Html(svg[svg.index("<svg") :].replace("#000000", "currentColor")), aria_label=description)


def page(title: str, lead: object, sections: Mapping[str, Html]) -> str:
    """Returns the whole page; `sections` are HTML by heading."""
    head = [
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", title),
        tag("style", Html(_STYLE.read_text(encoding="utf-8"))),
    ]
    links = [tag("a", heading, href=f"#part{number}") for number, heading in enumerate(sections)]
    parts = [
        tag("section", tag("h2", heading), content, id=f"part{number}")
        for number, (heading, content) in enumerate(sections.items())
    ]
    body = tag("body", tag("header", tag("h1", title), tag("p", lead), tag("nav", *links)), tag("main", *parts))
    return f'<!doctype html>\n<html lang="en">{tag("head", *head)}{body}</html>\n'


def shortened(text: str, length: int = _MOST_CHARS_OF_A_LABEL) -> str:
    """Returns at most so many characters of a text."""
    return text if len(text) <= length else f"{text[: length - 1]}\u2026"


def _row_name(name: str) -> Html:
    return tag("th", shortened(name), scope="row", dir="auto")


def _shown(cell: object) -> object:
    return f"{cell:.3f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell
