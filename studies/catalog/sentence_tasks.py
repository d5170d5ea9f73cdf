"""The second task of pre-training: next sentence, sentence order (ALBERT) or none (part of table 5)."""

from bert_keras.studies.runner.study import Claim, Study, Variant


def _claim(task, probe, name, source):
    text = f"{task} is better than no sentence task on {name}"
    return Claim(text, source, better=task, worse="none", probe=probe)


_PAPER = "section 5.1, table 5"
STUDY = Study(
    title="The sentence task of pre-training (part of table 5)",
    variants={
        "next sentence": Variant(records={"sentence_task": "next_sentence"}),
        "sentence order": Variant(records={"sentence_task": "sentence_order"}),
        "none": Variant(records={"sentence_task": "none"}),
    },
    probes=("bits_per_byte", "mrpc", "qnli", "mnli_small", "sst2"),
    claims=(
        _claim("next sentence", "mrpc", "MRPC", _PAPER),
        _claim("next sentence", "qnli", "QNLI-small", _PAPER),
        _claim("next sentence", "mnli_small", "MNLI-small", _PAPER),
        _claim("sentence order", "mnli_small", "MNLI-small", "ALBERT"),
    ),
    num_seeds=5,
)
