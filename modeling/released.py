"""The models that google-research/bert released: sizes, addresses, and when to use which."""

import dataclasses

_HOST = "https://storage.googleapis.com/bert_models"


@dataclasses.dataclass(frozen=True)
class ReleasedModel:
    """A released checkpoint.

    Attributes:
        name: str, the name of its zip file without the ending; the second model of a name has the year at the end.
        alias: a short name, such as "tiny", or None.
        address: of the zip file.
        has_folder: whether the zip file holds a folder; the files of a miniature are at the top of its zip file.
        num_hidden_layers, hidden_size, vocab_size: of its config. The head size is 64, and the intermediate size
            4 * hidden_size.
        do_lower_case: whether it reads lower-cased text without accents.
        hugging_face: its name on Hugging Face.
        advice: a short sentence on when to use it.
    """

    name: str
    alias: str | None
    address: str
    has_folder: bool
    num_hidden_layers: int
    hidden_size: int
    vocab_size: int
    do_lower_case: bool
    hugging_face: str
    advice: str

    @property
    def num_attention_heads(self) -> int:
        return self.hidden_size // 64

    @property
    def num_parameters(self) -> int:
        """Number of weights in the checkpoint: the network and the heads of both pre-training tasks."""
        width = self.hidden_size
        dense, norm = width * width + width, 2 * width
        embeddings = (self.vocab_size + 512 + 2) * width + norm
        layer = 4 * dense + norm + (8 * width * width + 5 * width) + norm
        pooler, masked_lm, next_sentence = dense, dense + norm + self.vocab_size, 2 * width + 2
        return embeddings + self.num_hidden_layers * layer + pooler + masked_lm + next_sentence

    @property
    def num_bytes(self) -> int:
        """Size of the float32 weights."""
        return 4 * self.num_parameters

    @property
    def readable_size(self) -> str:
        """The size of the weights, such as "440 MB"."""
        size = self.num_bytes / 1e6
        return f"{size / 1000:.2f} GB" if size >= 1000 else f"{size:.0f} MB"


def released_models() -> tuple["ReleasedModel", ...]:
    """Returns all released models: English, other languages, miniatures."""
    return _MODELS


def find_released(name: str) -> "ReleasedModel | None":
    """Returns the ReleasedModel of a name or alias; None for another name."""
    return next((model for model in _MODELS if name in (model.name, model.alias)), None)


def find_on_hugging_face(name: str) -> "ReleasedModel | None":
    """Returns the ReleasedModel of a name on Hugging Face, with or without its owner; None for another name."""
    return next((model for model in _MODELS if name in (model.hugging_face, model.hugging_face.split("/")[1])), None)


def _miniature(layers: int, width: int) -> ReleasedModel:
    name = f"uncased_L-{layers}_H-{width}_A-{width // 64}"
    alias, advice = _MINIATURES.get((layers, width), (None, "To study depth and width."))
    return ReleasedModel(
        name=f"{name}_2020" if (layers, width) == (12, 768) else name,  # the model of 2018 has the same name
        alias=alias,
        address=f"{_HOST}/2020_02_20/{name}.zip",
        has_folder=False,
        num_hidden_layers=layers,
        hidden_size=width,
        vocab_size=30522,
        do_lower_case=True,
        hugging_face=f"google/bert_{name}",
        advice=advice,
    )


def _full_size(
    folder: str,
    family: str,
    size: str,
    vocab_size: int,
    hugging_face: str,
    advice: str,
    alias: str | None = None,
    do_lower_case: bool = False,
) -> ReleasedModel:
    layers, width = (12, 768) if size == "base" else (24, 1024)
    name = f"{family}_L-{layers}_H-{width}_A-{width // 64}"
    address, hugging_face = f"{_HOST}/{folder}/{name}.zip", f"google-bert/bert-{size}-{hugging_face}"
    return ReleasedModel(name, alias, address, True, layers, width, vocab_size, do_lower_case, hugging_face, advice)


_MINIATURES = {
    (2, 128): ("tiny", "To try things out."),
    (4, 256): ("mini", "Quick, less accurate."),
    (4, 512): ("small", "Fast on a CPU."),
    (8, 512): ("medium", "Between small and base."),
    (12, 768): (None, "Base of 2020, for comparisons."),
}
_MODELS = (
    _full_size("2018_10_18", "uncased", "base", 30522, "uncased", "Start here for English.", "base", True),
    _full_size("2018_10_18", "cased", "base", 28996, "cased", "For names and parts of speech."),
    _full_size("2018_10_18", "uncased", "large", 30522, "uncased", "The paper's; prefer wwm_uncased.", "large", True),
    _full_size("2018_10_18", "cased", "large", 28996, "cased", "The paper's; prefer wwm_cased."),
    _full_size(
        *("2019_05_30", "wwm_uncased", "large", 30522, "uncased-whole-word-masking"),
        "Most accurate; slow on a CPU.",
        do_lower_case=True,
    ),
    _full_size(
        *("2019_05_30", "wwm_cased", "large", 28996, "cased-whole-word-masking"),
        "The same, for names.",
    ),
    _full_size("2018_11_23", "multi_cased", "base", 119547, "multilingual-cased", "For 104 languages."),
    _full_size(
        *("2018_11_03", "multilingual", "base", 105879, "multilingual-uncased"),
        "Its authors prefer multi_cased.",
        do_lower_case=True,
    ),
    _full_size("2018_11_03", "chinese", "base", 21128, "chinese", "For Chinese.", do_lower_case=True),
    *(_miniature(layers, width) for layers in (2, 4, 6, 8, 10, 12) for width in (128, 256, 512, 768)),
)
