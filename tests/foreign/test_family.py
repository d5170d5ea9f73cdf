"""Each folder of a family that transformers opens answers here as it does there, or is refused by a key."""

import collections

import pytest
from foreign_answers import assert_same_answers
from foreign_folders import CASES, HEADS, ODD, write_case

from bert_keras import open_model
from bert_keras.mistakes import Mistake

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("no_graphs")]

OF_PRETRAINING = ("masks", "next sentence", "pre-training")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_folder_answers_as_in_transformers(tmp_path, case):
    write_case(tmp_path, case)
    end = HEADS[case.head][0]
    try:
        options = {"long": "truncate"} if case.head in OF_PRETRAINING else {}
        model = open_model(tmp_path, task="regression" if case.head == "one number" else None, **options)
    except Mistake as error:
        refusal = str(error)
        model = None
    if model is None:
        names = [*case.refusals, *filter(None, (ODD[name].may_be_asked for name in case.odd))]
        assert any(name in refusal for name in names), f"{names}: {refusal}"
        return
    assert not case.refusals, f"{case.refusals} should be refused"
    assert_same_answers(model, tmp_path, end)


def test_the_family_has_every_value_several_times():
    counts = collections.Counter(name for case in CASES for name in case.odd)
    assert len(CASES) >= 120
    assert set(ODD) == set(counts)
    assert min(counts.values()) >= 2, counts.most_common()[-3:]
