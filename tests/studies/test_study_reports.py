"""Verdicts, tables and pictures from results that are made up, and the declarations of all studies."""

import csv

import numpy as np
import pytest

from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.modeling import BertConfig
from bert_keras.settings.fields import setting_fields
from bert_keras.tasks.pretraining.settings import PretrainingSettings
from studies.runner.catalog import STUDIES
from studies.runner.probes import PROBES
from studies.runner.report import csv_report, markdown_report, picture_report, verdict_on
from studies.runner.study import SCALES, Claim, Study, Variant

CLAIM = Claim("a is better", "section 9", better="a", worse="b", probe="zorro")
STUDY = Study(
    "A title",
    {"a": Variant(), "b|c": Variant(), "b": Variant()},
    ("zorro", "bits_per_byte"),
    (CLAIM,),
)


def results(num_right, num_seeds=3, num_examples=50):
    """Returns results by seed with a number of right answers; a dict for two probes."""
    numerators = [1.0] * num_right + [0.0] * (num_examples - num_right)
    values = [numerators, [1.0] * num_examples]
    # The last seed was interrupted.
    return {
        seed: {"values": values, "minutes": 99.0 if seed == 2 else 1.5, "model_minutes": 2.0}
        for seed in range(num_seeds)
    }


@pytest.mark.parametrize(
    ("num_a", "num_b", "num_seeds", "probe", "verdict"),
    [
        (50, 10, 3, "zorro", "reproduced"),
        (10, 50, 3, "zorro", "not reproduced"),
        (10, 50, 3, "bits_per_byte", "reproduced"),  # fewer bits are better
        (25, 25, 3, "zorro", "undecided"),
        (50, 10, 2, "zorro", "undecided"),
    ],
)
def test_verdicts(num_a, num_b, num_seeds, probe, verdict):
    claim = Claim("a is better", "section 9", better="a", worse="b", probe=probe)
    found = {("a", probe): results(num_a, num_seeds), ("b", probe): results(num_b, num_seeds)}
    given, advantage = verdict_on(claim, found)
    assert given == verdict
    sign = -1 if probe == "bits_per_byte" else 1
    assert advantage.value == pytest.approx(sign * (num_a - num_b) / 50)
    assert advantage.low <= advantage.value <= advantage.high


def test_one_result_that_no_seed_changes_gives_a_verdict():
    once = {None: results(50, num_seeds=1)[0]}
    assert verdict_on(CLAIM, {("a", "zorro"): once, ("b", "zorro"): results(10)})[0] == "reproduced"
    assert verdict_on(CLAIM, {("a", "zorro"): once, ("b", "zorro"): results(10, num_seeds=2)})[0] == "undecided"


def test_a_claim_without_results_is_undecided():
    assert verdict_on(CLAIM, {("a", "zorro"): results(3)}) == ("undecided", None)


def test_reports_of_what_exists():
    found = {("a", "zorro"): results(50), ("b|c", "zorro"): results(0, num_seeds=1)}
    text = markdown_report(STUDY, found, "python studies/run_study.py x", ["processor: y"], "z.png")
    lines = text.splitlines()
    assert lines[:5] == [
        "# A title",
        "",
        "| variant | Zorro | seeds | minutes a seed |",
        "| --- | --- | --- | --- |",
        "| a | 100.0 [100.0, 100.0] | 3 | 3.5 |",
    ]
    assert "| b\\|c | 0.0 [0.0, 0.0] | 1 | 3.5 |" in lines
    assert "| b |  | 0 | 0.0 |" in lines
    assert "| a is better | section 9 |  | undecided |" in lines
    assert "python studies/run_study.py x --variants='a'" in lines
    rows = list(csv.DictReader(csv_report("x", STUDY, found).splitlines()))
    assert [(row["variant"], row["seeds"], row["examples"], row["value"]) for row in rows] == [
        ("a", "3", "50", "1.0"),
        ("b|c", "1", "50", "0.0"),
    ]
    assert picture_report(STUDY, found).startswith(b"\x89PNG")


def test_the_spread_over_seeds_is_that_of_single_runs():
    right = (30, 25, 40, 20, 35)
    by_seed = {seed: results(num)[0] | {"constant": 0.5} for seed, num in enumerate(right)}
    text = markdown_report(STUDY, {("a", "zorro"): by_seed, ("b", "zorro"): results(50)}, "", [], "z.png")
    header = "| variant | score | seeds | mean | standard deviation | lowest | highest | failed |"
    # Half of the pairs right is what a constant has: two of the runs are not better.
    row = f"| a | Zorro | 5 | 60.0 | {100 * np.std([num / 50 for num in right], ddof=1):.1f} | 40.0 | 80.0 | 2 |"
    lines = text.splitlines()
    assert lines[lines.index(header) + 2 :][:2] == [row, ""]
    assert "Spread" not in markdown_report(STUDY, {("a", "zorro"): results(50)}, "", [], "z.png")


def test_each_probe_has_a_study():
    assert {probe for study in STUDIES.values() for probe in study.probes} == set(PROBES)


@pytest.mark.parametrize("name", STUDIES)
def test_the_declarations_of_a_study_are_valid(name):
    study = STUDIES[name]
    # The flag --variants separates them by commas.
    assert not any("," in variant or variant != variant.strip() for variant in study.variants)
    flags = {field.name for field in setting_fields(PretrainingSettings)}
    for scale in SCALES.values():
        BertConfig(vocab_size=scale.vocab_size, **scale.config)
        for of_variant in study.variants.values():
            records = PretrainingDataSettings(**{**scale.records, **of_variant.records})
            assert records.max_seq_length <= scale.config["max_position_embeddings"]
            assert flags >= {*scale.training, *of_variant.training}
            checkpoints = of_variant.share / of_variant.saved_share
            assert checkpoints == pytest.approx(round(checkpoints))
            assert set(of_variant.probes or {}) <= set(study.probes)
        assert set(study.probes) <= set(scale.probes) == set(PROBES)
    for claim in study.claims:
        for variant, probe in ((claim.better, claim.better_probe or claim.probe), (claim.worse, claim.probe)):
            given = study.variants[variant].probes
            assert probe in study.probes
            assert given is None or probe in given
