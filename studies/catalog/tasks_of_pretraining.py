"""Masked LM with next sentence prediction, sentence order or neither, and left to right (table 5 of the paper).

All rows but that of sentence order train on the same examples; those without next sentence prediction leave out its
loss. The left-to-right model is the same network with a causal mask, also in fine-tuning, as in the paper. The row with
LSTMs has them in fine-tuning only; they are for tags of words, so CoNLL takes the place of SQuAD.
"""

from studies.runner.study import Claim, Study, Variant

_RECORDS = {"sentence_task": "next_sentence"}
_NO_NSP = {"next_sentence_loss_weight": 0.0}
_PAPER, _ALBERT = "section 5.1, table 5", "ALBERT (Lan et al. 2020)"


def _of_paper(*numbers: float) -> dict[str, float]:
    return dict(zip(("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1"), numbers, strict=True))


def _claim(better, worse, probe, name, source=_PAPER):
    return Claim(f"{better} is better than {worse} on {name}", source, better=better, worse=worse, probe=probe)


STUDY = Study(
    title="The tasks of pre-training (table 5)",
    variants={
        "masked LM and NSP": Variant(records=_RECORDS, paper=_of_paper(84.4, 88.4, 86.7, 92.7, 88.5)),
        "masked LM and sentence order": Variant(records={"sentence_task": "sentence_order"}),
        "masked LM": Variant(records=_RECORDS, training=_NO_NSP, paper=_of_paper(83.9, 84.9, 86.5, 92.6, 87.9)),
        "left to right": Variant(
            config={"is_decoder": True},
            records=_RECORDS,
            training=_NO_NSP,
            paper=_of_paper(82.1, 84.3, 77.5, 92.1, 77.8),
        ),
        "left to right with LSTMs": Variant(
            config={"is_decoder": True},
            records=_RECORDS,
            training=_NO_NSP,
            probes={"ner": {"tagger": "bilstm_tuned"}},
            paper=_of_paper(82.1, 84.1, 75.7, 91.6, 84.9),
        ),
    },
    probes=("blimp", "zorro", "mnli_small", "qnli", "mrpc", "sst2", "ner"),
    claims=(
        _claim("masked LM and NSP", "masked LM", "mnli_small", "MNLI-small"),
        _claim("masked LM and NSP", "masked LM", "qnli", "QNLI-small"),
        _claim("masked LM and NSP", "masked LM", "mrpc", "MRPC"),
        _claim("masked LM and sentence order", "masked LM and NSP", "mnli_small", "MNLI-small", _ALBERT),
        _claim("masked LM", "left to right", "mnli_small", "MNLI-small"),
        _claim("masked LM", "left to right", "qnli", "QNLI-small"),
        _claim("masked LM", "left to right", "mrpc", "MRPC"),
        _claim("masked LM", "left to right", "sst2", "SST-2"),
        _claim("masked LM", "left to right", "ner", "CoNLL, a task of tokens"),
        _claim("left to right with LSTMs", "left to right", "ner", "CoNLL"),
        _claim("masked LM", "left to right with LSTMs", "ner", "CoNLL"),
    ),
    num_seeds=5,
)
