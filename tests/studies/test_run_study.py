"""A study from its text to its report, with models of one layer; and the mistakes of users."""

import csv
import dataclasses
import json
import math
import random

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bert_keras.cli.flags import ending_at_sigterm
from bert_keras.modeling import open_checkpoint
from bert_keras.prediction import SentenceScorer
from bert_keras.tasks.tagging.conll import read_conll
from studies import run_study
from studies.runner import models
from studies.runner.catalog import STUDIES
from studies.runner.corpus import read_documents
from studies.runner.study import Claim, Scale, Study, Variant
from studies.runner.word_features import WeightedSumClassifier, tag_with_features
from tests.support.training_runs import stop_after

NOUNS, VERBS, PLACES = ("cat", "dog", "king", "child"), ("sleeps", "walks", "sings"), ("Rome", "Paris", "Oslo")
STUDY = Study(
    "A tiny study",
    {
        "pre-trained": Variant(),
        "only masks": Variant(records={"replace_prob": 1.0, "keep_prob": 0.0}, probes={"zorro": {}}),
        "random weights": Variant(is_trained=False, probes={"bits_per_byte": {}}),
    },
    ("bits_per_byte", "zorro", "sst2", "stsb", "qnli", "squad", "ner", "ner_features"),
    (Claim("pre-training helps", "ours", better="pre-trained", worse="random weights", probe="bits_per_byte"),),
)
FINE_TUNING = {"num_train": 12, "num_test": 6, "num_train_epochs": 1, "max_seq_length": 16, "train_batch_size": 4}
SCALE = Scale(
    most_documents=None,
    vocab_size=90,
    config={
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 24,
    },
    records={"max_seq_length": 16, "max_predictions_per_seq": 3, "dupe_factor": 1, "sentence_task": "none"},
    training={"num_train_steps": 4, "train_batch_size": 4, "num_warmup_steps": 1, "learning_rate": 1e-2},
    probes={
        "bits_per_byte": {"num_sentences": 4},
        "zorro": {"num_pairs": 2},
        **dict.fromkeys(("sst2", "stsb", "qnli"), FINE_TUNING),
        "squad": FINE_TUNING | {"max_query_length": 6},
        "ner": FINE_TUNING,
        "ner_features": {"num_train": 12, "num_test": 6, "layers": [-1]},
    },
)


def sentences(number):
    rng = np.random.default_rng(number)
    return [f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} in {rng.choice(PLACES)} ." for _ in range(4)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    documents = "\n\n".join("\n".join(sentences(number)) for number in range(120))
    tagged = "\n\n".join(
        "\n".join(f"{word} x x {'B-LOC' if word in PLACES else 'O'}" for word in sentence.split())
        for number in range(4)
        for sentence in sentences(number)
    )
    rows = "".join(f"a {noun} sings\t{noun in NOUNS[:2]:d}\n" for noun in NOUNS * 4)
    scored = "".join(
        f"{number}\ta {noun} sings\tthe {noun} sings\t{number % 5}.5\n" for number, noun in enumerate(NOUNS * 4)
    )
    asked = "".join(
        f"{number}\twho sings\ta {noun} sings\t{'not_' * (number % 2)}entailment\n"
        for number, noun in enumerate(NOUNS * 4)
    )
    context = " ".join(sentences(0))
    questions = [
        {"id": f"{noun} {number}", "question": f"where is the {noun}", "is_impossible": not number}
        | {"answers": [{"text": "the", "answer_start": 0}] * bool(number)}
        for noun in NOUNS
        for number in range(3)
    ]
    articles = [{"paragraphs": [{"context": context, "qas": questions[n : n + 3]}]} for n in range(0, 12, 3)]
    files = {
        "squad/train_v2_10_articles.json": json.dumps({"data": articles}),
        "corpus/a.txt": documents + "\n",
        "zorro/verbs-number.tsv": "the cat sings .\tthe cat sing .\n" * 3,
        **{f"conll2003/{name}.txt": tagged + "\n" for name in ("train", "test")},
        **{f"glue/SST-2/{name}.tsv": f"sentence\tlabel\n{rows}" for name in ("train", "dev")},
        **{f"glue/STS-B/{name}.tsv": f"index\tsentence1\tsentence2\tscore\n{scored}" for name in ("train", "dev")},
        "glue/QNLI/dev.tsv": f"index\tquestion\tsentence\tlabel\n{asked}",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(data, folder, *flags, study=STUDY, scale=SCALE):
    values = run_study.define_flags()
    argv = ["run_study.py", f"--data_dir={data}", f"--output_dir={folder}", f"--input_file={data}/corpus/*.txt", *flags]
    values(argv)
    run_study.run_at(values, "tiny", study, scale, "python studies/run_study.py tiny")
    return folder / "smoke"


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_study_continues_and_reports(data, tmp_path, monkeypatch):
    trained = []
    pretrain = models.pretrain
    monkeypatch.setattr(models, "pretrain", lambda *args, **named: (trained.append(named), pretrain(*args, **named)))
    end_in_training(data, tmp_path, monkeypatch)
    trained.clear()
    report = run(data, tmp_path, "--variants=pre-trained", "--seeds=0")
    assert [named["seed"] for named in trained] == [0]
    assert report.joinpath("tiny.csv").read_text(encoding="utf-8").count("\n") == 1 + 8
    report = run(data, tmp_path, "--seeds=0,1")
    # Two variants that train, two seeds; one was there.
    assert [named["seed"] for named in trained] == [0, 0, 1, 1]
    results = report.joinpath("tiny.csv").read_text(encoding="utf-8")
    assert results.count("\n") == 1 + 8 + 1 + 1
    text = report.joinpath("tiny.md").read_text(encoding="utf-8")
    assert "| pre-training helps | ours | " in text
    assert report.joinpath("tiny.png").read_bytes().startswith(b"\x89PNG")
    # Nothing is left to do; the report can be made alone.
    report.joinpath("tiny.md").unlink()
    run(data, tmp_path, "--seeds=0,1")
    run(data, tmp_path, "--report")
    assert len(trained) == 4
    assert report.joinpath("tiny.csv").read_text(encoding="utf-8") == results
    assert report.joinpath("tiny.md").read_text(encoding="utf-8") == text
    check_bits(data, tmp_path, results)


def end_in_training(data, folder, monkeypatch):
    """Ends a study with SIGTERM: no model and no score of unfinished training is kept."""
    with monkeypatch.context() as patch, ending_at_sigterm():
        stop_after(patch, 2)
        with pytest.raises(SystemExit, match="^143$"):
            run(data, folder, "--variants=pre-trained", "--seeds=0")
    assert list(folder.glob("cells/model-*/model/model.ckpt-2.index"))
    assert not list(folder.glob("cells/[mp]*/result.json"))


def check_bits(data, folder, results):
    """Compares the bits per byte with the scores of the models on held-out sentences."""
    [corpus] = folder.glob("cells/corpus-*")
    held_out = (corpus / "held_out.txt").read_text(encoding="utf-8").split("\n")
    assert len(held_out) > 4
    scorers = [SentenceScorer(path.parent) for path in sorted(folder.glob("cells/model-*/model/model.ckpt-4.index"))]
    assert len(scorers) == 4
    row = next(row for row in results.splitlines() if "pre-trained,bits_per_byte" in row).split(",")
    values = []
    for scorer in scorers:
        scores = scorer(sorted(set(filter(None, held_out))))
        bits = [-score.log_probability / math.log(2) / len(score.text.encode()) for score in scores]
        values += [min(bits), max(bits)]
    assert min(values) <= float(row[5]) <= max(values)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_checkpoints_of_one_run_are_probed(data, tmp_path):
    variants = {f"after {share}": Variant(share=share) for share in (0.5, 1.0)}
    study = Study("Steps", variants, ("bits_per_byte", "zorro", "sst2", "ner"), ())
    scale = dataclasses.replace(SCALE, training=SCALE.training | {"num_train_steps": 5})
    report = run(data, tmp_path, "--seeds=0", study=study, scale=scale)
    rows = csv.DictReader((report / "tiny.csv").read_text(encoding="utf-8").splitlines())
    found = {(row["variant"], row["probe"]): float(row["value"]) for row in rows}
    assert len(found) == 2 * 4
    [corpus] = tmp_path.glob("cells/corpus-*")
    held_out = sorted(set(filter(None, (corpus / "held_out.txt").read_text(encoding="utf-8").split("\n"))))
    random.Random(1).shuffle(held_out)
    [model] = tmp_path.glob("cells/model-*/model")
    for share, step in ((0.5, 2), (1.0, 5)):
        scorer = SentenceScorer(model / f"model.ckpt-{step}")
        bits = sum(-score.log_probability / math.log(2) for score in scorer(held_out[:4]))
        assert found[f"after {share}", "bits_per_byte"] == pytest.approx(bits / sum(map(len, held_out[:4])), rel=1e-5)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_discriminators_are_trained_and_probed(data, tmp_path):
    study = dataclasses.replace(STUDIES["electra"], probes=("sst2", "ner"), claims=())
    scale = dataclasses.replace(SCALE, training=SCALE.training | {"num_train_steps": 8})
    report = run(data, tmp_path, "--seeds=0", study=study, scale=scale)
    assert report.joinpath("tiny.csv").read_text(encoding="utf-8").count("\n") == 1 + 3 * 2
    models = [open_checkpoint(path) for path in tmp_path.glob("cells/model-*/model")]
    steps = {(int(model.read("global_step")), model.heads) for model in models}
    assert steps == {(8, ("masked_lm", "next_sentence")), (8, ("replaced_token",)), (6, ("replaced_token",))}


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_model_of_the_user_takes_the_place_of_a_new_one(data, tmp_path):
    run(data, tmp_path, "--variants=random weights", "--seeds=0")
    [model] = tmp_path.glob("cells/model-*/model")
    variants = {
        "last layer": Variant(probes={"ner_features": {"layers": "all"}}),
        "embeddings": Variant(probes={"ner_features": {"layers": ["embeddings"]}}),
    }
    study = Study("Features", variants, ("ner_features",), ())
    run(data, tmp_path / "other", f"--model_dir={model}", "--seeds=0,1", study=study)
    # No seed changes the features.
    assert len(list(tmp_path.glob("other/cells/*"))) == 2
    [cell] = tmp_path.glob("other/smoke/tiny-model.csv")
    scores = {row.split(",")[1]: float(row.split(",")[5]) for row in cell.read_text(encoding="utf-8").splitlines()[1:]}
    # Names of places are the only words with a tag, so even the embeddings of random weights contain it.
    assert scores["embeddings"] == 1.0
    train = read_conll(data / "conll2003/train.txt")
    assert tag_with_features(str(model), train, train, ["embeddings"]) == [list(one.tags) for one in train]
    # The best constant answer of SST-2 here is the more frequent label: 2 of 4 nouns, in the first six rows 4 of 6.
    run(
        data,
        tmp_path / "other",
        f"--model_dir={model}",
        "--seeds=0",
        study=Study("SST-2", {"a": Variant()}, ("sst2",), ()),
    )
    cells = [json.loads(file.read_text()) for file in tmp_path.glob("other/cells/probe-*/result.json")]
    assert [cell["constant"] for cell in cells if cell["constant"] is not None] == [4 / 6]


def test_a_weighted_sum_of_layers_finds_the_layer_that_knows():
    rng = np.random.default_rng(0)
    layers = rng.normal(size=(400, 3, 5))
    tags = np.array(["A", "B", "C"])[(layers[:, 1] @ rng.normal(size=(5, 3))).argmax(1)]
    weighted = WeightedSumClassifier(3)
    weighted.fit(layers.reshape(400, -1), list(tags))
    assert weighted.shares.sum() == pytest.approx(1)
    assert weighted.shares.argmax() == 1
    assert weighted.shares[1] > 0.8
    assert (weighted.predict(layers.reshape(400, -1)) == tags).mean() > 0.95
    # With one layer, it is the logistic regression of scikit-learn.
    one, library = WeightedSumClassifier(1), LogisticRegression(max_iter=1000)
    one.fit(layers[:, 0], list(tags))
    library.fit(layers[:, 0], tags)
    np.testing.assert_allclose(
        one._matrix - one._matrix.mean(1, keepdims=True),
        library.coef_.T - library.coef_.T.mean(1, keepdims=True),
        atol=2e-3,
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "^the study is nothing, but one of these is needed: electra, features, pretraining, seeds, spans, steps$"),
        (["span"], "^the study is span, but one of these is needed: "),
        (["spans", "--probes=glue"], '^--probes has "glue", but the probes of this study are: squad; ner'),
        (["spans", "--variants=x", "--data_dir={data}"], '^--variants has "x", but the variants of this study are'),
        (["spans", "--seeds=x", "--data_dir={data}"], '^--seeds has "x", which is not a whole number; give numbers'),
        (["seeds", "--data_dir={data}"], "^seeds needs --model_dir: the folder of a model that is trained"),
        (["spans", "--scale=full", "--data_dir={data}"], "^--scale=full is for a model that is trained, but spans "),
        (["spans", "--seeds=20", "--data_dir={data}"], "^the seed 20 is not from 0 to 19; give other --seeds"),
        (["pretraining", "--data_dir={data}"], "has no blimp, which the probe blimp needs; put it there, or"),
        (["spans", "--model_dir=x", "--data_dir={data}"], "^--model_dir is for one model, but spans trains several"),
        (["features", "--model_dir=x", "--data_dir={data}"], "^--model_dir=x is not a folder on this machine; give"),
        (["features", "--model_dir={data}", "--input_file=x"], "^--input_file has no effect with --model_dir; leave"),
        (["spans", "--report", "--variants=spans", "--data_dir={data}"], "^--variants has no effect with --report; le"),
        (["spans", "--report", "--seeds=0", "--data_dir={data}"], "^--seeds has no effect with --report; leave one"),
    ],
)
def test_mistakes(data, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        run_study.main(["run_study.py", *(flag.format(data=data) for flag in flags)])
    assert list(tmp_path.iterdir()) == []


def test_documents_are_separated_by_blank_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one .\r\ntwo .\r\n\r\nthree .\r\n")
    (tmp_path / "b.txt").write_text("\n\nfour .\n\n\n\nfive .", encoding="utf-8")
    assert read_documents(f"{tmp_path}/*.txt") == ["one .\ntwo .", "three .", "four .", "five ."]
    (tmp_path / "c.txt").write_text("one .\ntwo .\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"c.txt has 1 documents, but a study needs two or more; separate them by blank"
    ):
        read_documents(str(tmp_path / "c.txt"))
