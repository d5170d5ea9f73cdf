"""Masked LM with and without next sentence prediction, and left to right (table 5 of the paper).

All rows train on the same text in the same examples. The models without next sentence prediction leave out its loss.
The left-to-right model is the same network with a causal mask, also in fine-tuning, as in the paper.
"""

from bert_keras.studies.runner.study import Claim, Study, Variant

_RECORDS = {"sentence_task": "next_sentence"}
_NO_NSP = {"next_sentence_loss_weight": 0.0}


def _claim(better, worse, probe, name):
    text = f"{better} is better than {worse} on {name}"
    return Claim(text, "section 5.1, table 5", better=better, worse=worse, probe=probe)


STUDY = Study(
    title="The tasks of pre-training (table 5)",
    variants={
        "masked LM and NSP": Variant(records=_RECORDS),
        "masked LM": Variant(records=_RECORDS, training=_NO_NSP),
        "left to right": Variant(config={"is_decoder": True}, records=_RECORDS, training=_NO_NSP),
    },
    probes=("blimp", "zorro", "mrpc", "mnli_small", "sst2", "ner"),
    claims=(
        _claim("masked LM and NSP", "masked LM", "mnli_small", "MNLI-small"),
        _claim("masked LM and NSP", "masked LM", "mrpc", "MRPC"),
        _claim("masked LM", "left to right", "ner", "CoNLL, a task of tokens"),
        _claim("masked LM", "left to right", "mnli_small", "MNLI-small"),
        _claim("masked LM", "left to right", "mrpc", "MRPC"),
        _claim("masked LM", "left to right", "sst2", "SST-2"),
    ),
    num_seeds=5,
)
