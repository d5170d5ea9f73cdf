"""The size of the model (table 6 of the paper), in the shapes of released miniatures.

The rows after the first four compute about as much as the smallest model: their steps are in inverse proportion to the
products of a step. The minutes of the report show how equal the times are.
"""

from studies.runner.study import Claim, Study, Variant, shape


def _products(num_layers, hidden_size):
    """Returns the multiplications of a step: those of the encoder, and of the output layer for 10 of 64 tokens."""
    vocab_size, length, num_masked = 8000, 64, 10
    of_layer = length * 12 * hidden_size**2 + 2 * length**2 * hidden_size
    return num_layers * of_layer + num_masked * hidden_size * (vocab_size + hidden_size)


_SHAPES = {f"L-{layers} H-{width}": (layers, width) for layers, width in ((2, 128), (4, 128), (2, 256), (4, 256))}
_SMALLEST, _LARGEST = "L-2 H-128", "L-4 H-256"
_FACTORS = {name: _products(*_SHAPES[_SMALLEST]) / _products(*sizes) for name, sizes in _SHAPES.items()}


def _with_fewer_steps(name):
    return f"{name} for {_FACTORS[name]:.2f} of the steps"


_SOURCE = "section 5.2, table 6"
_CLAIMS = (
    ("a wider model predicts text better", "L-2 H-256", "L-2 H-128", "bits_per_byte"),
    ("a deeper model predicts text better", "L-4 H-128", "L-2 H-128", "bits_per_byte"),
    ("a larger model is better on CoNLL", _LARGEST, "L-2 H-128", "ner"),
    ("a larger model is better on the small MRPC", _LARGEST, "L-2 H-128", "mrpc"),
)
_PAPER = {
    (3, 768, 12): (5.84, 77.9, 79.8, 88.4),
    (6, 768, 3): (5.24, 80.6, 82.2, 90.7),
    (6, 768, 12): (4.68, 81.9, 84.8, 91.3),
    (12, 768, 12): (3.99, 84.4, 86.7, 92.9),
    (12, 1024, 16): (3.54, 85.7, 86.9, 93.3),
    (24, 1024, 16): (3.23, 86.6, 87.8, 93.7),
}
STUDY = Study(
    title="The size of the model (table 6)",
    variants={
        **{name: Variant(config=shape(*sizes)) for name, sizes in _SHAPES.items()},
        **{
            _with_fewer_steps(name): Variant(config=shape(*sizes), num_steps_factor=round(_FACTORS[name], 2))
            for name, sizes in _SHAPES.items()
            if name != _SMALLEST
        },
    },
    probes=("bits_per_byte", "zorro", "mrpc", "ner"),
    claims=(
        *(Claim(text, _SOURCE, better=better, worse=worse, probe=probe) for text, better, worse, probe in _CLAIMS),
        Claim(
            "a larger model is better than the smallest with as much computation",
            "ours",
            better=_with_fewer_steps("L-2 H-256"),
            worse=_SMALLEST,
            probe="bits_per_byte",
        ),
    ),
    paper={
        f"{layers} layers of width {width}, {heads} heads": dict(
            zip(("perplexity of the masked LM", "MNLI-m", "MRPC", "SST-2"), numbers, strict=True)
        )
        for (layers, width, heads), numbers in _PAPER.items()
    },
)
