"""Pre-trained weights against random ones."""

from bert_keras.studies.runner.study import Claim, Study, Variant


def _claim(probe, task):
    text = f"pre-trained weights are better than random ones on {task}"
    return Claim(text, "section 1", better="pre-trained", worse="random weights", probe=probe)


STUDY = Study(
    title="Pre-trained against random weights",
    variants={"pre-trained": Variant(), "random weights": Variant(is_trained=False)},
    probes=("bits_per_byte", "zorro", "blimp", "sst2", "cola", "mrpc", "stsb", "qnli", "mnli_small", "ner"),
    claims=(
        _claim("ner", "CoNLL"),
        _claim("sst2", "SST-2"),
        _claim("mnli_small", "MNLI-small"),
        _claim("zorro", "Zorro"),
    ),
)
