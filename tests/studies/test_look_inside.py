"""The attention of all heads equals a NumPy BERT's, and the page contains it."""

import base64
import json
import re

import numpy as np
import pytest
from known_models import ids_of, random_model, write_model
from reference_bert import ReferenceBert

from bert_keras.modeling import weights_by_name
from bert_keras.prediction.attention import looks_at
from studies import look_inside
from studies.inside.attention import AttentionReader, attention_page

FIRST, SECOND = "he was hungry so he walked .", "paris is </script>"
TOKENS = [
    "[CLS]",
    "he",
    "was",
    "hungry",
    "so",
    "he",
    "walk",
    "##ed",
    ".",
    "[SEP]",
    "paris",
    "is",
    "[UNK]",
    "[UNK]",
    "[UNK]",
    "[UNK]",
    "[SEP]",
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    model = random_model(seed=2)
    folder = write_model(tmp_path_factory.mktemp("model"), model)
    return model, folder, AttentionReader(folder)


def reference(model, ids, segments):
    """Returns the attention [L, N, T, T] and the states [1 + L, T, H] of the NumPy BERT."""
    config = model.config
    sizes = config.num_hidden_layers, config.num_attention_heads, config.hidden_act
    bert = ReferenceBert(*sizes, {name: np.array(weight) for name, weight in weights_by_name(model).items()})
    mask = np.ones_like(ids)
    embedded, layers, _ = bert.encode(ids, mask, segments)
    states = [embedded, *layers]
    shares = [
        bert.probabilities(state, mask, f"bert/encoder/layer_{number}/attention")[0]
        for number, state in enumerate(states[:-1])
    ]
    return np.stack(shares), np.stack(states)[:, 0]


def test_the_arrays_are_those_of_a_numpy_bert(opened):
    model, _, reader = opened
    attention = reader.read(FIRST, SECOND)
    assert attention.tokens == TOKENS
    ids = np.array([ids_of(" ".join(TOKENS))])
    shares, states = reference(model, ids, np.array([[0] * 10 + [1] * 7]))
    np.testing.assert_allclose(attention.shares, shares, atol=1e-5)
    np.testing.assert_allclose(attention.shares.sum(-1), 1.0, atol=1e-5)
    # The tables from the reference's arrays, by loops.
    for layer, head in np.ndindex(*shares.shape[:2]):
        rows, num = shares[layer, head], len(TOKENS)
        expected = [
            np.mean([row[9] + row[16] for row in rows]),
            np.mean([rows[i][i - 1] for i in range(1, num)]),
            np.mean([rows[i][i + 1] for i in range(num - 1)]),
            np.mean([rows[i][i] for i in range(num)]),
            np.mean([-sum(share * np.log2(share) for share in row) for row in rows]),
        ]
        np.testing.assert_allclose(attention.heads[layer, head], expected, rtol=1e-3, atol=1e-5)
    units = states / np.linalg.norm(states, axis=-1, keepdims=True)
    pairs = [(i, j) for i in range(len(TOKENS)) for j in range(len(TOKENS)) if i != j]
    for layer in range(3):
        norm, below, alike = attention.layers[layer][:3]
        assert norm == pytest.approx(np.mean(np.linalg.norm(states[layer], axis=-1)), rel=1e-4)
        assert alike == pytest.approx(np.mean([units[layer, i] @ units[layer, j] for i, j in pairs]), abs=1e-4)
        if layer:
            expected = np.mean([units[layer, i] @ units[layer - 1, i] for i in range(len(TOKENS))])
            assert below == pytest.approx(expected, abs=1e-4)
            np.testing.assert_allclose(attention.layers[layer][3:], attention.heads[layer - 1].mean(0))
    assert np.isnan(attention.layers[0][[1, 3, 4, 5, 6, 7]]).all()


def test_known_shares():
    """A head that looks at the previous token only, and one that looks at all four tokens equally."""
    shares = np.stack([np.eye(4, k=-1), np.full((4, 4), 0.25)])[None]
    shares[0, 0, 0, 0] = 1.0
    np.testing.assert_allclose(
        looks_at(shares, ["[CLS]", "a", "b", "[SEP]"])[0], [[0, 1, 0, 0.25, 0], [0.25] * 4 + [2]]
    )


def test_the_page_contains_the_arrays_and_its_text_cannot_end_the_script(opened):
    attention = opened[2].read(FIRST, "</script><script>alert(1)</script>")
    page = attention_page(attention, "</script>")
    assert page.count("</script>") == 2
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)|{{", page)
    content = json.loads(re.search(r'id="content">(.*?)</script>', page, re.DOTALL)[1])
    shares = np.frombuffer(base64.b64decode(content["shares"]), "<f4").reshape(content["shape"])
    np.testing.assert_array_equal(shares, attention.shares)
    assert (content["model"], content["tokens"]) == ("</script>", attention.tokens)
    assert len(content["heads"]) == 4
    assert content["layers"][0]["[SEP]"] is None


def test_the_program_writes_a_page_and_the_tables(opened, tmp_path, capsys):
    file = tmp_path / "page.html"
    look_inside.main(["look_inside.py", f"--model_dir={opened[1]}", f"--output_file={file}", "--json", FIRST, SECOND])
    tables = json.loads(capsys.readouterr().out)
    assert tables["tokens"] == TOKENS
    attention = opened[2].read(FIRST, SECOND)
    assert tables["heads"][3]["entropy"] == pytest.approx(attention.heads[1, 1, 4])
    assert file.read_text(encoding="utf-8") == attention_page(attention, str(opened[1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["he"], "^missing: model_dir "),
        (["--model_dir={model}"], "^0 texts were given, but one is needed, or two for a pair; quote each text$"),
        (["--model_dir={model}", "a", "b", "c"], "^3 texts were given"),
        (["--model_dir={model}", "--output_file={file}", "a"], r"old.html exists; give a new name, or remove it$"),
        (
            ["--model_dir={model}", "--max_seq_length=4", "a b c"],
            "^the text has 5 tokens, but only 4 are allowed; make",
        ),
        (["--model_dir={model}", " "], "^the text has no word; give one to look at$"),
    ],
)
def test_mistakes(opened, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.html").write_text("mine")
    names = {"model": opened[1], "file": tmp_path / "old.html"}
    with pytest.raises(ValueError, match=message):
        look_inside.main(["look_inside.py", *(argument.format(**names) for argument in arguments)])
    assert [path.name for path in tmp_path.iterdir()] == ["old.html"]
    assert (tmp_path / "old.html").read_text() == "mine"
