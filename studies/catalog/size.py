"""The size of the model at equal numbers of steps (table 6 of the paper), in the shapes of released miniatures."""

from bert_keras.studies.runner.study import Claim, Study, Variant


def _shape(num_layers, hidden_size):
    sizes = {"num_hidden_layers": num_layers, "hidden_size": hidden_size, "intermediate_size": 4 * hidden_size}
    return Variant(config={**sizes, "num_attention_heads": hidden_size // 64})


_SOURCE = "section 5.2, table 6"
STUDY = Study(
    title="The size of the model at equal steps (table 6)",
    variants={
        "L-2 H-128": _shape(2, 128),
        "L-4 H-128": _shape(4, 128),
        "L-2 H-256": _shape(2, 256),
        "L-4 H-256": _shape(4, 256),
    },
    probes=("bits_per_byte", "zorro", "mrpc", "ner"),
    claims=tuple(
        Claim(text, _SOURCE, better=better, worse="L-2 H-128", probe=probe)
        for text, better, probe in (
            ("a wider model predicts text better", "L-2 H-256", "bits_per_byte"),
            ("a deeper model predicts text better", "L-4 H-128", "bits_per_byte"),
            ("a larger model is better on CoNLL", "L-4 H-256", "ner"),
            ("a larger model is better on the small MRPC", "L-4 H-256", "mrpc"),
        )
    ),
)
