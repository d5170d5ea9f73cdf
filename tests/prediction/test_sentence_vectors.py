"""Models for vectors: prefix, pooling and length; folders of sentence-transformers, read and written."""

import json
import pathlib
import re

import numpy as np
import pytest
from converted import convert
from fine_tuned_models import OF_VECTORS, write_fine_tuned
from known_models import randomise, small_config
from safetensors.numpy import save_file
from tiny_exports import export_in_this_process

from bert_keras import FeatureExtractor, Vectorizer, export_model, open_model
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.sentence_transformers import module_files
from bert_keras.modeling import SentenceModel
from bert_keras.prediction import Limits

pytestmark = pytest.mark.usefixtures("no_graphs")

TEXTS = ["paris", "he was hungry so he ate .", "the capital of france is paris " * 5]
TYPES = "sentence_transformers.models."


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """Return a function of changed settings that writes a model for vectors and returns the folder of its run."""
    model = randomise(SentenceModel(small_config(num_hidden_layers=1)))

    def write(**settings):
        return write_fine_tuned(tmp_path_factory.mktemp("run"), model, "vectors", **(OF_VECTORS | settings))

    return write


def vectors_of(folder, texts=TEXTS, **options):
    return np.array([answer.vector for answer in open_model(folder, **options)(texts)])


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_a_model_stores_prefix_pooling_and_length(model_of, messages, pooling):
    run = model_of(pooling=pooling, prefix="he was ", normalize=True)
    expected = FeatureExtractor(run, [-1], pooling, 16)([f"he was {text}" for text in TEXTS])
    expected = np.array([features.values[0] for features in expected])
    found = vectors_of(run)
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert "texts longer than 16 tokens lost their ends: 1 of 3" in messages
    plain = model_of(pooling=pooling, prefix="", normalize=False)
    assert np.abs(np.linalg.norm(vectors_of(plain), axis=1) - 1).min() > 0.1


def test_a_call_may_have_another_prefix(model_of):
    model, plain = Vectorizer(model_of(prefix="she ")), Vectorizer(model_of(prefix=""))
    expected = [answer.vector for answer in plain([f"he was {text}" for text in TEXTS])]
    np.testing.assert_allclose([answer.vector for answer in model(TEXTS, prefix="he was ")], expected, atol=1e-6)
    assert model(TEXTS[0], prefix="").vector == pytest.approx(plain(TEXTS[0]).vector, abs=1e-6)
    [pair] = model([(TEXTS[0], TEXTS[1])], prefix="he was ")
    assert pair.cosine == pytest.approx(float(np.dot(expected[0], expected[1])), abs=1e-6)
    with pytest.raises(ValueError, match="the option prefix is of type int, but a str is needed"):
        model(TEXTS[0], prefix=5)


def test_a_pair_has_a_similarity(model_of):
    vectorize = Vectorizer(model_of(normalize=False))
    first, second = (np.array(answer.vector) for answer in vectorize(TEXTS[:2]))
    answer, alike = vectorize([(TEXTS[0], TEXTS[1]), (TEXTS[0], TEXTS[0])])
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert (answer.text, answer.text_pair) == tuple(TEXTS[:2])
    assert answer.cosine == pytest.approx(cosine, abs=1e-6)
    assert alike.cosine == pytest.approx(1, abs=1e-6)
    assert answer.readable() == f"{cosine:.4f}  {TEXTS[0]}  |  {TEXTS[1]}"
    with pytest.raises(ValueError, match="^row 0 has no word in its second text; give a second text$"):
        vectorize([("paris", " ")])


@pytest.mark.parametrize("settings", [{}, {"pooling": "cls", "normalize": False, "prefix": ""}])
def test_a_folder_of_sentence_transformers_is_written_and_read(model_of, tmp_path, settings):
    run = model_of(**settings)
    folder = convert(run, tmp_path / "converted")
    assert {"modules.json", "1_Pooling", "config.json", "task.json"} <= {path.name for path in folder.iterdir()}
    (folder / "task.json").unlink()
    model = ModelFolder(folder)
    assert (pathlib.Path(model.folder), model.task) == (folder, {"task": "vectors", **OF_VECTORS, **settings})
    np.testing.assert_allclose(vectors_of(folder), vectors_of(run), atol=1e-6)
    export = {"export_dir": folder.parent / "export", "verbose": False}
    with pytest.raises(ValueError, match="^max_seq_length: the model sets this itself; leave it out$"):
        export_model(init_checkpoint=folder, task="vectors", max_seq_length=8, **export)


def test_the_encoder_may_be_in_the_folder_of_the_first_module(model_of, tmp_path):
    run = model_of()
    folder = convert(run, tmp_path / "converted")
    encoder = folder / "0_Transformer"
    encoder.mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "sentence_bert_config.json"):
        (folder / name).rename(encoder / name)
    (folder / "task.json").unlink()
    modules = json.loads((folder / "modules.json").read_text())
    modules[0] |= {"path": "0_Transformer", "type": "sentence_transformers.base.modules.transformer.Transformer"}
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling" / "config.json").write_text('{"embedding_dimension": 8, "pooling_mode": "mean"}')
    (encoder / "sentence_bert_config.json").write_text("{}")  # newer versions store the length with the tokenizer
    (encoder / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 16}')
    np.testing.assert_allclose(vectors_of(folder), vectors_of(run), atol=1e-6)


@pytest.mark.parametrize("casing", [{"do_lower_case": False}, {"do_lower_case": False, "strip_accents": True}, {}])
@pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_distilbert_config.json"])
def test_texts_are_lower_cased_whatever_the_tokenizer_does(model_of, tmp_path, casing, name):
    folder = convert(model_of(prefix=""), tmp_path / "converted")
    expected = vectors_of(folder, TEXTS)
    (folder / "task.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps(casing))
    (folder / "sentence_bert_config.json").unlink()
    (folder / name).write_text('{"max_seq_length": 16, "do_lower_case": true}')
    np.testing.assert_array_equal(vectors_of(folder, [text.upper() for text in TEXTS]), expected)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("modules.json", "[1]", "does not list modules with their type and path; take the whole folder that"),
        (
            "modules.json",
            json.dumps([{"type": f"{TYPES}{kind}", "path": kind} for kind in ("Transformer", "Pooling", "Dense")]),
            "has the modules Transformer, Pooling, Dense; bert-keras reads Transformer, Pooling and Normalize, in this",
        ),
        (
            "1_Pooling/config.json",
            '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}',
            "the pooling is cls and mean, but must be one of cls, mean, max",
        ),
        ("1_Pooling/config.json", '{"pooling_mode": "lasttoken"}', "the pooling is lasttoken, but must be one of cls"),
        ("1_Pooling/config.json", '{"include_prompt": false}', "include_prompt is false, which bert-keras does not su"),
        ("1_Pooling/config.json", '{"pooling_mode": "mean", "gamma": 2}', "gamma is 2, which bert-keras does not supp"),
        ("sentence_bert_config.json", '{"max_seq_length": "8"}', 'max_seq_length is "8", but must be a whole number'),
        ("sentence_bert_config.json", '{"do_lower_case": "yes"}', "do_lower_case is .yes., which bert-keras does not"),
        (
            "sentence_bert_config.json",
            '{"max_seq_length": 8, "query_length": 4}',
            "query_length is 4, which bert-keras",
        ),
        (
            "sentence_bert_config.json",
            '{"transformer_task": "sequence-classification"}',
            'transformer_task is "sequence-classification", which bert-keras',
        ),
        (
            "sentence_bert_config.json",
            '{"module_output_name": "scores"}',
            'module_output_name is "scores", which bert-k',
        ),
        ("sentence_bert_config.json", '{"tokenizer_args": {"a": 1}}', 'tokenizer_args is {"a": 1}, which bert-keras'),
        ("config_sentence_transformers.json", '{"truncate_dim": 4}', "truncate_dim is 4, which bert-keras does not"),
        (
            "config_sentence_transformers.json",
            '{"model_type": "SparseEncoder"}',
            "model_type is .SparseEncoder., which",
        ),
        *(
            (
                "config_sentence_transformers.json",
                f'{{"default_prompt_name": {name}}}',
                rf"default_prompt_name is {re.escape(name)}, which is not",
            )
            for name in ('"a"', '["a"]')
        ),
        *(
            (
                "config_sentence_transformers.json",
                f'{{"prompts": {prompts}}}',
                f"prompts is {re.escape(prompts)}, but must be an object of texts; correct it$",
            )
            for prompts in ("true", '{"a": 5}')
        ),
        ("1_Pooling/config.json", '{"pooling_mode": 5}', "the pooling is 5, but must be one of cls, mean, max$"),
        (
            "modules.json",
            json.dumps([{"type": f"{TYPES}{kind}", "path": kind} for kind in ("Transformer", "Pooling", "Pooling")]),
            "has the modules Transformer, Pooling, Pooling; bert-keras reads Transformer, Pooling and Normalize, in th",
        ),
        (
            "modules.json",
            json.dumps([{"type": "custom.Transformer", "path": ""}, {"type": f"{TYPES}Pooling", "path": "1_Pooling"}]),
            "has the modules custom.Transformer, Pooling; bert-keras reads",
        ),
        (
            "modules.json",
            json.dumps([{"type": f"{TYPES}{kind}", "path": "../x"} for kind in ("Transformer", "Pooling")]),
            'modules.json names "../x", but a model names only files in its own folder; take the model from somebody',
        ),
    ],
)
def test_other_modules_are_refused(tmp_path, name, content, message):
    (tmp_path / "1_Pooling").mkdir()
    for file, text in (module_files(OF_VECTORS, 8) | {name: content}).items():
        (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        open_model(tmp_path)


@pytest.fixture
def of_peer(model_of, tmp_path):
    """Return a function of changed settings that writes a folder of sentence-transformers without our task.json."""

    def write(**settings):
        folder = convert(model_of(**settings), tmp_path / "converted")
        (folder / "task.json").unlink()
        return folder

    return write


def test_every_program_pools_as_the_folder_says(of_peer, tmp_path):
    from bert_keras.serving.versions import open_folders

    folder = of_peer(pooling="cls", normalize=True, prefix="he was ")
    expected = vectors_of(folder)
    [served] = open_folders({"vectors": str(folder)}, ["vectors"], Limits())
    [model] = served.models
    np.testing.assert_allclose([answer["vector"] for answer in model.answers(TEXTS, {})], expected, atol=1e-6)
    flags = [f"--init_checkpoint={folder}", f"--export_dir={tmp_path / 'export'}", "--task=vectors"]
    export_in_this_process(*flags, "--format=onnx")
    np.testing.assert_allclose(vectors_of(tmp_path / "export"), expected, atol=1e-5)


def test_prompts_and_similarity_come_back(of_peer, tmp_path):
    folder = of_peer(prefix="")
    expected = [answer.vector for answer in open_model(folder)(TEXTS, prefix="she ")]
    file = folder / "config_sentence_transformers.json"
    prompts = {"query": "she ", "document": ""}
    kept = {"prompts": prompts, "default_prompt_name": "query", "similarity_fn_name": "dot"}
    file.write_text(json.dumps(kept | {"__version__": {"sentence_transformers": "5.0"}}))
    np.testing.assert_allclose(vectors_of(folder), expected, atol=1e-6)
    back = convert(folder, tmp_path / "back")
    assert json.loads((back / file.name).read_text()) == kept
    np.testing.assert_allclose(vectors_of(back), vectors_of(folder), atol=1e-6)


class TestSetFit:
    BIAS = np.array([0.5, -0.5, 0.1])

    def write_head(self, folder, name, weights, bias=BIAS, **config):
        (folder / "config_setfit.json").write_text(json.dumps({"labels": ["bad", "fair", "good"]} | config))
        if name == "model_head.json":
            head = {"coef_": weights.tolist(), "intercept_": bias.tolist(), "classes_": list(range(len(weights)))}
            (folder / name).write_text(json.dumps(head))
        else:
            tensors = {"linear.weight": weights.astype(np.float32), "linear.bias": bias.astype(np.float32)}
            save_file(tensors, folder / name)

    @pytest.mark.parametrize(("name", "normalize"), [("model_head.json", False), ("model_head.safetensors", True)])
    def test_a_head_that_can_be_read_gives_classes(self, of_peer, tmp_path, name, normalize):
        folder = of_peer(pooling="max", normalize=False, prefix="")
        vectors = plain = vectors_of(folder)
        width = vectors.shape[1]
        weights = np.linspace(-2, 3, 3 * width).reshape(3, width)
        self.write_head(folder, name, weights, normalize_embeddings=normalize)
        if normalize:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        logits = vectors @ weights.T + self.BIAS
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        export_in_this_process(f"--model_dir={folder}", f"--export_dir={tmp_path / 'export'}", "--format=onnx")
        for model in (open_model(folder), open_model(tmp_path / "export")):
            for text, expected in zip(TEXTS, shares, strict=True):
                found = model(text).probabilities
                assert [found[label] for label in ("bad", "fair", "good")] == pytest.approx(expected, abs=1e-5)
        np.testing.assert_allclose(vectors_of(folder, task="vectors"), plain, atol=1e-6)

    def test_one_row_is_the_logit_of_the_second_class(self, of_peer):
        folder = of_peer(normalize=False, prefix="")
        vectors = vectors_of(folder)
        weights = np.linspace(-1, 1, vectors.shape[1])[None]
        self.write_head(folder, "model_head.json", weights, np.array([0.2]), labels=None)
        head = json.loads((folder / "model_head.json").read_text()) | {"classes_": ["no", "yes"]}
        (folder / "model_head.json").write_text(json.dumps(head))
        expected = 1 / (1 + np.exp(-(vectors @ weights[0] + 0.2)))
        found = [answer.probabilities["yes"] for answer in open_model(folder)(TEXTS)]
        assert found == pytest.approx(expected, abs=1e-5)

    def test_a_pickle_is_refused(self, of_peer):
        folder = of_peer()
        expected = vectors_of(folder)
        (folder / "model_head.pkl").write_bytes(b"")
        with pytest.raises(Mistake, match="whose head, model_head.pkl, is a pickle, .* or give task=vectors for the"):
            open_model(folder)
        np.testing.assert_array_equal(vectors_of(folder, TEXTS, task="vectors"), expected)
        assert FeatureExtractor(folder, [-1])("paris").values.shape == (3, 1, 16)

    @pytest.mark.parametrize(
        ("prefix", "strategy", "message"),
        [
            ("", "one-vs-rest", "config_setfit.json has the multi_target_strategy one-vs-rest, .*=vectors"),
            ("query: ", None, 'the prompt "query: " before each text .default_prompt_name., .*=vectors'),
        ],
    )
    def test_what_is_not_read_is_refused_by_its_key(self, of_peer, prefix, strategy, message):
        folder = of_peer(prefix=prefix)
        self.write_head(folder, "model_head.json", np.ones((3, 16)), multi_target_strategy=strategy)
        with pytest.raises(Mistake, match=message):
            open_model(folder)
        assert vectors_of(folder, task="vectors").shape[1] == 16

    @pytest.mark.parametrize(
        ("head", "message"),
        [
            ("{}", "the lists coef_, intercept_ and classes_ of a logistic regression"),
            ('{"coef_": [1], "intercept_": [1], "classes_": [1]}', "the head has weights .1. and a bias .1., but"),
            (
                '{"coef_": [[1], [2]], "intercept_": [1, 2], "classes_": [1]}',
                "has 2 classes, but their names are 1; cor",
            ),
        ],
    )
    def test_a_damaged_head_is_named(self, of_peer, head, message):
        folder = of_peer()
        (folder / "model_head.json").write_text(head)
        with pytest.raises(Mistake, match=message):
            open_model(folder)


@pytest.mark.slow  # loads PyTorch
@pytest.mark.parametrize("settings", [{}, {"pooling": "max", "normalize": False}, {"pooling": "cls"}])
def test_sentence_transformers_opens_the_folder_and_agrees(model_of, tmp_path, settings):
    peer = pytest.importorskip("sentence_transformers", reason="sentence-transformers, of the extra [peers]")
    run = model_of(**settings)
    opened = peer.SentenceTransformer(str(convert(run, tmp_path / "converted")), device="cpu")
    expected = opened.encode(TEXTS)
    np.testing.assert_allclose(vectors_of(run), expected, rtol=0, atol=1e-5)
    opened.save(str(tmp_path / "saved"))
    np.testing.assert_allclose(vectors_of(tmp_path / "saved"), expected, rtol=0, atol=1e-5)


@pytest.mark.slow  # loads PyTorch and a real model
def test_a_real_model_gives_the_vectors_of_sentence_transformers(minilm):
    peer = pytest.importorskip("sentence_transformers", reason="sentence-transformers, of the extra [peers]")
    expected = peer.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors_of(minilm), expected, rtol=0, atol=1e-5)
