"""Draws answers.png: texts per second of bert-keras and of other libraries, from the first table of performance.md."""

import pathlib
import re

from matplotlib.figure import Figure

from picture_style import INK, LINE, MUTED, STRONG, plot_style

PAGE = "docs/explanation/performance.md"
PROGRAMS = (
    "bert-keras in int8, exported to OpenVINO",
    "bert-keras",
    "sentence-transformers or transformers, fastest setting",
    "the same, default setting",
)
COLORS = ("#1e3a8a", STRONG[0], LINE, "#cbd5e1")
# A query of the reranker has eight texts.
TEXTS = {"reranker, queries": 8}
HEIGHT = 0.2


def speeds(page):
    """Returns the texts per second of each of PROGRAMS by task."""
    table = page.partition("## Texts to answers")[2].partition("| --- |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[1:]]
    found = {}
    for task, ours, fastest, _, default, _, int8, _ in rows:
        numbers = [float(re.match(r"[\d.]+", cell)[0]) for cell in (int8, ours, fastest, default)]
        found[task.partition(",")[0]] = [number * TEXTS.get(task, 1) for number in numbers]
    return found


def figures():
    found = speeds((pathlib.Path(__file__).resolve().parents[2] / PAGE).read_text(encoding="utf-8"))
    with plot_style():
        figure = Figure(figsize=(7.6, 5), layout="constrained")
        axes = figure.add_subplot()
        for number, (program, color) in enumerate(zip(PROGRAMS, COLORS, strict=True)):
            places = [row + (number - 1.5) * HEIGHT for row in range(len(found))]
            bars = axes.barh(places, [values[number] for values in found.values()], HEIGHT, color=color, label=program)
            axes.bar_label(bars, fmt="%.0f", padding=3, color=INK if number < 2 else MUTED, fontsize=8.5)
        axes.set_yticks(range(len(found)), list(found))
        axes.invert_yaxis()
        axes.set_xlabel("texts per second")
        axes.legend(frameon=False, loc="lower right")
    return {"answers": figure}
