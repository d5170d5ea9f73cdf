"""The report of a study from the cells that exist: tables in Markdown and CSV, and a picture with intervals."""

import csv
import io
import operator
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studies.runner.intervals import Interval, Scores, difference_of, interval_of, score_of
from studies.runner.probes import PROBES
from studies.runner.study import Claim, Study

# With fewer seeds, an interval over seeds means little.
_FEWEST_SEEDS = 3
# From this number of seeds on, the report shows how far they spread.
_SPREAD_SEEDS = 5
# Pictures of one row of the report's picture.
_COLUMNS = 3
REPRODUCED, NOT_REPRODUCED, UNDECIDED = "reproduced", "not reproduced", "undecided"

# (variant, probe) -> the results of its cells by seed; the seed None is of a cell that no seed changes.
Results = Mapping[tuple[str, str], Mapping[int | None, dict[str, Any]]]


def scores_of(probe: str, by_seed: Mapping[int | None, dict[str, Any]]) -> Scores:
    """Returns the values of all seeds."""
    values = np.array([result["values"] for result in by_seed.values()], float)  # [S, C, E]
    return Scores(values.swapaxes(1, 2), PROBES[probe].statistic)


def verdict_on(claim: Claim, results: Results) -> tuple[str, Interval | None]:
    """Returns the verdict on a claim, and the advantage of the variant that it calls better.

    A claim is reproduced if the whole interval is above 0, not reproduced if it is below, and undecided otherwise, or
    with fewer than three seeds where the seed changes a score.
    """
    places = (claim.better, claim.better_probe or claim.probe), (claim.worse, claim.probe)
    pair = [results.get(place, {}) for place in places]
    if not all(pair):
        return UNDECIDED, None
    first, second = (scores_of(probe, cells) for (_, probe), cells in zip(places, pair, strict=True))
    advantage = difference_of(first, second)
    if not PROBES[claim.probe].is_higher_better:
        advantage = Interval(-advantage.value, -advantage.high, -advantage.low)
    if any(len(by_seed) < _FEWEST_SEEDS and None not in by_seed for by_seed in pair):
        return UNDECIDED, advantage
    if advantage.low > 0:
        return REPRODUCED, advantage
    return (NOT_REPRODUCED if advantage.high < 0 else UNDECIDED), advantage


def markdown_report(study: Study, results: Results, command: str, facts: Sequence[str], picture: str) -> str:
    """Returns the report as Markdown.

    Args:
        command: the command of the study, which the report shows.
        facts: lines about the machine and the versions.
        picture: file name of the picture of the scores.
    """
    probes = [probe for probe in study.probes if any(name == probe for _, name in results)]
    header = ["variant", *(PROBES[probe].title for probe in probes), "seeds", "minutes a seed"]
    rows = []
    for variant in study.variants:
        cells = [results.get((variant, probe), {}) for probe in probes]
        seeds = {seed for by_seed in cells for seed in by_seed}
        # Medians, because an interruption or other work on the machine makes single cells much slower.
        minutes = sum(_median(result["minutes"] for result in by_seed.values()) for by_seed in cells)
        # The models of a variant are trained once, whatever the number of probes.
        models = {seed: result["model_minutes"] for by_seed in cells for seed, result in by_seed.items()}
        score_texts = [
            _shown(probe, interval_of(scores_of(probe, cell))) if cell else ""
            for probe, cell in zip(probes, cells, strict=True)
        ]
        rows.append([variant, *score_texts, len(seeds), f"{minutes + _median(models.values()):.1f}"])
    lines = [f"# {study.title}", "", *_table(header, rows), ""]
    lines += ["A cell has the score and its interval of 95 % over seeds and examples (multibootstrap).", ""]
    lines += [f"![Scores with their intervals]({picture})", "", *_spread(study, results)]
    lines += ["## Claims", "", *_table(["claim", "source", "advantage", "verdict"], _claim_rows(study, results)), ""]
    lines += [
        "A claim is reproduced if the whole interval of the advantage is on its side. With fewer than "
        f"{_FEWEST_SEEDS} seeds, it stays undecided, unless no seed changes its scores.",
        "",
        "## How to run it again",
        "",
        "```",
        command,
        f"{command} --variants='{next(iter(study.variants))}'",
        "```",
        "",
        "The second command runs one row.",
        "",
        *(f"- {fact}" for fact in facts),
    ]
    return "\n".join(lines) + "\n"


def _median(minutes):
    return statistics.median(list(minutes) or [0.0])


def _claim_rows(study, results):
    rows = []
    for claim in study.claims:
        verdict, advantage = verdict_on(claim, results)
        rows.append([claim.text, claim.source, "" if advantage is None else _shown(claim.probe, advantage), verdict])
    return rows


def _spread(study, results):
    """Returns how the scores of single seeds differ, if there are enough."""
    rows = []
    for variant in study.variants:
        for probe in study.probes:
            by_seed = results.get((variant, probe), {})
            if len(by_seed) < _SPREAD_SEEDS:
                continue
            values = [score_of(scores_of(probe, {seed: result})) for seed, result in by_seed.items()]
            constants = [result.get("constant") for result in by_seed.values()]
            failed = "" if None in constants else sum(map(operator.le, values, constants))
            factor, digits = (100, 1) if PROBES[probe].has_percent else (1, 3)
            figures = statistics.mean(values), statistics.stdev(values), min(values), max(values)
            figure_texts = [f"{factor * figure:.{digits}f}" for figure in figures]
            rows.append([variant, PROBES[probe].title, len(values), *figure_texts, failed])
    if not rows:
        return []
    header = ["variant", "score", "seeds", "mean", "standard deviation", "lowest", "highest", "failed"]
    text = "Failed runs are not better than the best answer that is the same for all examples."
    return ["## Spread over seeds", "", *_table(header, rows), "", text, ""]


def csv_report(name: str, study: Study, results: Results) -> str:
    """Returns a row for each variant and probe."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["study", "variant", "probe", "seeds", "examples", "value", "low", "high"])
    for variant in study.variants:
        for probe in study.probes:
            if by_seed := results.get((variant, probe)):
                scores = scores_of(probe, by_seed)
                writer.writerow([name, variant, probe, *scores.values.shape[:2], *interval_of(scores)])
    return file.getvalue()


def picture_report(study: Study, results: Results) -> bytes:
    """Draws each probe's scores with their intervals, as bytes of a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    probes = [probe for probe in study.probes if any(name == probe for _, name in results)]
    variants = [variant for variant in study.variants if any(name == variant for name, _ in results)]
    num_columns = min(len(probes), _COLUMNS)
    num_rows = -(-len(probes) // num_columns)
    size = 2.5 + 2.5 * num_columns, num_rows * (0.8 + 0.35 * len(variants))
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    axes = figure.subplots(num_rows, num_columns, sharey=True, squeeze=False).flatten()
    for unused in axes[len(probes) :]:
        unused.axis("off")
    for probe, one in zip(probes, axes, strict=False):
        factor = 100 if PROBES[probe].has_percent else 1
        for place, variant in enumerate(variants):
            if by_seed := results.get((variant, probe)):
                value, low, high = (factor * number for number in interval_of(scores_of(probe, by_seed)))
                one.plot([low, high], [place, place], color="#2563eb", linewidth=2)
                one.plot([value], [place], "o", color="#1d2733")
        one.set_title(PROBES[probe].title + (", %" if factor == 100 else ""), fontsize=10)
        one.set_yticks(range(len(variants)), variants, parse_math=False)
        one.set_ylim(len(variants) - 0.5, -0.5)
        one.grid(axis="x", color="#e2e8f0")
    file = io.BytesIO()
    # Without the name of the software, every version of matplotlib writes the same bytes.
    FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _shown(probe, interval):
    """Returns a score and its interval, such as "50.0 [47.5, 52.5]"."""
    factor, digits = (100, 1) if PROBES[probe].has_percent else (1, 3)
    return "{0:.{3}f} [{1:.{3}f}, {2:.{3}f}]".format(*(factor * number for number in interval), digits)


def _table(header, rows):
    """Returns the lines of a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]
