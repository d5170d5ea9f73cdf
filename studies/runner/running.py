"""Runs a study: trains and probes each variant with each seed, and reports what exists."""

import hashlib
import importlib.metadata
import logging
import os
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import writing
from studies.runner.cells import Cells
from studies.runner.corpus import Corpus
from studies.runner.models import model_folder, model_settings, step_of
from studies.runner.probes import PROBES, Place
from studies.runner.report import Results, csv_report, markdown_report, picture_report
from studies.runner.study import Scale, Study

log = logging.getLogger("bert_keras")


class Run:
    """A study at one scale.

    Args:
        name: name of the study.
        study, scale: what to run.
        cells: where the results are.
        corpus: the text to pre-train on; None: `model_dir` is given.
        data_dir: folder with the data of the probes.
        model_dir: a model that all variants share, instead of one that is pre-trained here.
    """

    def __init__(
        self,
        name: str,
        study: Study,
        scale: Scale,
        cells: Cells,
        corpus: Corpus | None,
        data_dir: str,
        model_dir: str | None = None,
    ) -> None:
        self.name, self.study, self.scale, self._cells = name, study, scale, cells
        self._corpus: Any = corpus  # None only if there is a model_dir, which then takes its place
        self._data_dir, self._model_dir = data_dir, model_dir
        self._digests: dict[Any, str] = {}

    def run(self, variants: Sequence[str], seeds: Sequence[int], path: pathlib.Path, command: str) -> None:
        """Computes the cells that are missing, and writes the report after each seed."""
        for number, seed in enumerate(seeds):
            for variant in variants:
                for probe in self._probes_of(variant):
                    log.info("seed %d (%d of %d): %s, %s", seed, number + 1, len(seeds), variant, probe)
                    self._run_cell(variant, probe, seed)
            self.report(path, command)

    def report(self, path: pathlib.Path, command: str) -> None:
        """Writes the report of the cells that exist: `path` with .md, .csv and .png added.

        Raises:
            ValueError: no cell exists.
        """
        results = self.results()
        if not results:
            raise Mistake("{} has no result of {} at this scale; run it first", self._cells.folder, self.name)
        all_results = [result for by_seed in results.values() for result in by_seed.values()]
        processors = sorted({result["processor"] for result in all_results})
        dates = sorted({result["date"] for result in all_results})
        facts = [
            f"processor: {', '.join(processors)}",
            f"computed: {' to '.join(sorted({dates[0], dates[-1]}))}",
            _versions(),
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        text = markdown_report(self.study, results, command, facts, picture=f"{path.name}.png")
        writing.write_text(f"{path}.md", text)
        writing.write_text(f"{path}.csv", csv_report(self.name, self.study, results))
        writing.write_bytes(f"{path}.png", picture_report(self.study, results))
        log.info("report: %s.md", path)

    def results(self) -> Results:
        """Returns the results of the cells that exist, by (variant, probe) and by seed."""
        found: dict[tuple[str, str], dict[int | None, dict[str, Any]]] = {}
        for variant in self.study.variants:
            for probe in self._probes_of(variant):
                for seed in range(_MOST_SEEDS):
                    settings, model = self._settings(variant, probe, seed)
                    result = self._cells.find("probe", settings)
                    if result is not None:
                        trained = self._cells.find("model", model) if self._model_dir is None else None
                        result["model_minutes"] = trained["minutes"] if trained else 0.0
                        found.setdefault((variant, probe), {})[settings["seed"]] = result
        return found

    def _probes_of(self, variant):
        given = self.study.variants[variant].probes
        return [probe for probe in self.study.probes if given is None or probe in given]

    def _settings(self, variant, probe, seed):
        """Returns the settings of the cell of a probe, and those of its model."""
        variant_definition = self.study.variants[variant]
        options = {**self.scale.probes.get(probe, {}), **(variant_definition.probes or {}).get(probe, {})}
        if self._model_dir is None:
            model = model_settings(self._corpus, self.scale, variant_definition, seed)
        else:
            model = {"model": self._digest(self._model_dir, ("",))}
        data = self._digest(self._data_dir, PROBES[probe].files)
        # Without a seed, the cell is the same for all seeds.
        seed = seed if self._model_dir is None or PROBES[probe].has_seed else None
        settings = {"model": model, "probe": probe, "options": options, "data": data, "seed": seed}
        if variant_definition.share < 1:
            settings["step"] = step_of(self.scale, variant_definition, variant_definition.share)
        return settings, model

    def _run_cell(self, variant, probe, seed):
        settings, settings_of_model = self._settings(variant, probe, seed)

        def trained():
            return model_folder(self._cells, self._corpus, settings_of_model)

        def compute(folder):
            model = self._model_dir or trained()
            if "step" in settings:
                model = f"{model}/model.ckpt-{settings['step']}"
            place, probe_definition = Place(model, self._corpus, self._data_dir, seed, folder), PROBES[probe]
            constant = probe_definition.constant(place, **settings["options"]) if probe_definition.constant else None
            return {"values": probe_definition.run(place, **settings["options"]), "constant": constant}

        if self._cells.find("probe", settings) is None and self._model_dir is None:
            trained()  # its minutes are not those of the probe
        self._cells.get("probe", settings, compute)

    def _digest(self, folder, names):
        """Returns a digest of files, and of all files in folders."""
        if (folder, names) not in self._digests:
            parts = []
            for name in names:
                path = pathlib.Path(folder, name)
                files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
                parts += [f"{file.name} {writing.sha256(file)}" for file in files]
            self._digests[folder, names] = hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""
        return self._digests[folder, names]


# Seeds are numbers below this.
_MOST_SEEDS = 20


def check_seeds(seeds: Sequence[int]) -> None:
    """Checks the seeds of a run."""
    if wrong := [seed for seed in seeds if not 0 <= seed < _MOST_SEEDS]:
        raise Mistake("the seed {} is not from 0 to {}; give other --seeds", wrong[0], _MOST_SEEDS - 1)


def check_probes(study: Study, data_dir: str) -> None:
    """Checks that the data of all probes exist."""
    for probe in study.probes:
        for file in PROBES[probe].files:
            if not os.path.exists(os.path.join(data_dir, file)):
                raise Mistake(
                    "--data_dir={} has no {}, which the probe {} needs; put it there, or choose other --probes of {}",
                    data_dir,
                    file,
                    probe,
                    ", ".join(study.probes),
                )


def _versions():
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "keras", "numpy"))
    root = pathlib.Path(__file__).resolve().parents[2]
    result = subprocess.run(
        ["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    commit = f"; commit {result.stdout.strip()}" if result.returncode == 0 else ""
    return f"versions of the report: {packages}{commit}"
