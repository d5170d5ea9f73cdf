"""predict.py from its command line to its answers."""

import io
import json
import math
import pathlib
import re
import shutil
import sys

import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    fixed_classifier,
    word_finder,
    word_tagger,
    write_fine_tuned,
)
from known_models import answers_in, constant_model, positional_model, write_model

from bert_keras.cli.flags import run_main
from bert_keras.commands import evaluate_predictions, predict
from bert_keras.mistakes import Mistake

pytestmark = pytest.mark.usefixtures("no_graphs")

LABELS = {"labels": ["no", "yes"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that answers paris 0.5, london 0.25 for every mask, and 0.9 for every pair."""
    model = constant_model({"paris": 0.5, "london": 0.25}, follows=0.9)
    return write_model(tmp_path_factory.mktemp("model"), model)


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory):
    """A folder of runs: a classifier, one of pairs, a picker of choices, an answerer, a reranker, a tagger."""
    folder = tmp_path_factory.mktemp("runs")
    classifier = fixed_classifier(1.0, 2.0)
    write_fine_tuned(folder / "classification", classifier, "classification", **OF_TEXTS, **LABELS)
    write_fine_tuned(folder / "pair", classifier, "classification", **(OF_TEXTS | LABELS | {"is_pair": True}))
    write_fine_tuned(folder / "choices", fixed_classifier(0.5), "multiple_choice", max_seq_length=16)
    settings = OF_ANSWERS | {"version_2_with_negative": True}
    answerer = word_finder({"paris": 5, "[CLS]": 1}, {"capital": 5, "[CLS]": 1})
    write_fine_tuned(folder / "answers", answerer, "question_answering", **settings)
    tagger = word_tagger({"paris": "B-LOC", "he": "B-PER"})
    write_fine_tuned(folder / "ranks", classifier, "rerank", activation="sigmoid", max_seq_length=16)
    write_fine_tuned(folder / "tags", tagger, "token_classification", labels=TAGS, **OF_TAGS)
    return folder


@pytest.fixture
def ask_fine_tuned(fine_tuned, capsys):
    """Return a function of a run and arguments that returns the answers as dicts."""

    def run(name, *arguments):
        capsys.readouterr()
        predict.main(["predict.py", f"--model_dir={fine_tuned / name}", "--json", *arguments])
        return answers_in(capsys.readouterr().out)

    return run


@pytest.fixture
def standard_input(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_answers_for_readers(ask):
    assert ask("fill_mask", "He was [MASK].", "[MASK]", "--top_k=2") == (
        "He was [MASK].\n  0.5000  paris   He was paris.\n  0.2500  london  He was london.\n"
        "[MASK]\n  0.5000  paris   paris\n  0.2500  london  london\n"
    )


def test_arguments_a_file_and_standard_input_give_the_same_json(ask, tmp_path, standard_input):
    expected = ask("fill_mask", "--json", "[MASK] 首", "so [MASK]")
    first, second = answers_in(expected)
    assert (first["text"], second["best"]) == ("[MASK] 首", "so paris")
    guess = {"token": "paris", "probability": pytest.approx(0.5, abs=1e-6), "sentence": "paris 首"}
    assert len(first["masks"][0]) == 5
    assert first["masks"][0][0] == guess
    content = "\ufeff[MASK] 首\r\nso [MASK]\n\n".encode()
    (tmp_path / "texts.txt").write_bytes(content)
    assert ask("fill_mask", "--json", f"--input_file={tmp_path / 'texts.txt'}") == expected
    standard_input(content)
    assert ask("fill_mask", "--json") == expected


def test_pairs_and_scores(ask):
    pair, other = answers_in(ask("next_sentence", "--json", "he", "ate", "so", "he"))
    assert pair == {"text_a": "he", "text_b": "ate", "probability": pytest.approx(0.9, abs=1e-6)}
    assert other["text_a"] == "so"
    paris, dash = answers_in(ask("score", "--json", "--", "paris", "--a"))
    assert paris["log_probability"] == pytest.approx(-math.log(2), abs=1e-5)
    assert dash["text"] == "--a"


def test_minimal_pairs_are_scored_and_evaluated(ask, tmp_path, capsys):
    """Each sentence is scored once; with the rest of the word masked, a constant model gives the same scores."""
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "a.tsv").write_text("paris\tlondon\nparis paris\tparis\n", encoding="utf-8")
    folder = f"--input_file={tmp_path / 'pairs'}"
    written = ask("score", "--json", "--pll=within_word_l2r", folder)
    assert [answer["text"] for answer in answers_in(written)] == ["paris", "london", "paris paris"]
    scores = tmp_path / "scores.jsonl"
    scores.write_text(written, encoding="utf-8")
    flags = ["--task=minimal_pairs", f"--data_file={tmp_path / 'pairs'}", f"--predictions_file={scores}"]
    evaluate_predictions.main(["evaluate_predictions.py", *flags])
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row == ["a", "50.0", "9.5", "90.5", "2"]
    assert ask("score", "--json", folder) == written
    # A file of BLiMP is one of pairs, too.
    pairs = [{"sentence_good": "paris", "sentence_bad": "london"}, {"sentence_good": "paris", "sentence_bad": "so"}]
    (tmp_path / "b.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs), encoding="utf-8")
    answers = answers_in(ask("score", "--json", f"--input_file={tmp_path / 'b.jsonl'}"))
    assert [answer["text"] for answer in answers] == ["paris", "london", "so"]


def test_flags_reach_the_model(tmp_path, capsys):
    folder = write_model(tmp_path / "model", positional_model(["p", "a", "b", "c", "d"]))
    for name in ("vocab.txt", "bert_config.json"):
        (folder / name).rename(tmp_path / name)
    argv = ["predict.py", "--task=fill_mask", f"--init_checkpoint={folder}", "--json", "--do_lower_case=false"]
    argv += [f"--vocab_file={tmp_path / 'vocab.txt'}", f"--bert_config_file={tmp_path / 'bert_config.json'}"]
    argv += ["--long=window", "--batch_size=1", "--top_k=3", "is " * 50 + "[MASK]", "[MASK] is"]
    predict.main(argv)
    captured = capsys.readouterr()
    answers = answers_in(captured.out)
    assert [len(answer["masks"][0]) for answer in answers] == [3, 3]
    # The last window ends with the text; the text's last token is the 38th of the window.
    assert [answer["masks"][0][0]["token"] for answer in answers] == ["c", "a"]
    assert "keeping capital letters (as requested)" in captured.err
    assert "argument 1 has 51 tokens, 13 more than the 38 that the model takes; it is read through" in captured.err


def test_a_bad_line_can_be_reported_instead(ask, tmp_path):
    (tmp_path / "texts.txt").write_bytes(b"he [MASK]\nwas\n\xff\nso [MASK]\n[MASK] [MASK]\n")
    file = f"--input_file={tmp_path / 'texts.txt'}"
    first, second, third, fourth, last = answers_in(
        ask("fill_mask", "--json", "--on_error=report", "--max_masks=1", file)
    )
    assert (first["text"], fourth["text"]) == ("he [MASK]", "so [MASK]")
    assert second["source"] == f"{tmp_path}/texts.txt line 2"
    assert second["error"].startswith(f'{tmp_path}/texts.txt line 2 has no [MASK]: "was"; write [MASK]')
    assert third["error"] == f"{tmp_path}/texts.txt line 3: not UTF-8 (byte 0xff); save it as UTF-8"
    assert last["error"].endswith("but max_masks is 1; make it shorter, or raise max_masks")


def test_answers_come_while_texts_are_still_read(folder, monkeypatch, capsys):
    read_before_the_first_answer = []

    class Lines(io.BytesIO):
        num_read = 0

        def readline(self, size=-1):
            self.num_read += 1
            if capsys.readouterr().out:
                read_before_the_first_answer.append(self.num_read)
            return super().readline(size)

    lines = Lines(b"he was [MASK]\n" * 20)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines))
    predict.main(["predict.py", "--task=fill_mask", f"--init_checkpoint={folder}", "--batch_size=2", "--json"])
    assert read_before_the_first_answer[0] == 3  # one batch, and the next line
    assert lines.num_read == 21


def test_fine_tuned_models_answer_in_the_form_of_their_texts(ask_fine_tuned):
    [pair] = ask_fine_tuned("pair", "He was", "hungry")
    probabilities = {"no": pytest.approx(0.2689, abs=1e-4), "yes": pytest.approx(0.7311, abs=1e-4)}
    assert pair == {"text": "He was", "text_pair": "hungry", "label": "yes", "probabilities": probabilities}
    [choice] = ask_fine_tuned("choices", "He was", "hungry", "so")
    assert choice == {"text": "He was", "choices": ["hungry", "so"], "index": 0, "probabilities": [0.5, 0.5]}
    [answer] = ask_fine_tuned("answers", "Where?", "He is in Paris, the Capital.")
    assert (answer["question"], answer["text"], answer["start"]) == ("Where?", "Paris, the Capital", 9)
    [tagged] = ask_fine_tuned("tags", "--task=token_classification", "He is in Paris.")
    assert [entity["type"] for entity in tagged["entities"]] == ["PER", "LOC"]


def test_options_change_the_answers(ask, ask_fine_tuned):
    [classified] = ask_fine_tuned("classification", "he", "--top_k=1")
    assert list(classified["probabilities"]) == ["yes"]
    [answer] = ask_fine_tuned("answers", "Where?", "He is in Paris, the Capital.", "--top_k=1", "--threshold=-100")
    assert (len(answer["n_best"]), answer["null_threshold"], answer["is_impossible"]) == (1, -100, True)
    assert not ask_fine_tuned("tags", "He is in Paris.", "--threshold=1")[0]["entities"]
    [filled] = answers_in(ask("fill_mask", "--json", "[MASK]", "--candidates=london,hungry"))
    assert [guess["token"] for guess in filled["masks"][0]] == ["london", "hungry"]
    with pytest.raises(ValueError, match="^top_k is not an option of SentenceScorer; its options are pll$"):
        ask("score", "--top_k=3", "he")


def test_why_shows_the_words_that_move_the_answer(ask, ask_fine_tuned, fine_tuned, capsys):
    [answer] = ask_fine_tuned("classification", "He ate.", "--why")
    assert answer["words"] == [
        {"word": word, "start": start, "end": start + len(word), "weight": 0.0, "field": "text"}
        for word, start in (("He", 0), ("ate", 3), (".", 6))
    ]
    assert "words" not in ask_fine_tuned("classification", "He ate.")[0]
    predict.main(["predict.py", f"--model_dir={fine_tuned / 'classification'}", "He ate.", "--why"])
    assert capsys.readouterr().out.splitlines()[3:] == ["  +0.000  He", "  +0.000  ate", "  +0.000  ."]
    [answer] = ask_fine_tuned("answers", "Where?", "He is in Paris.", "--why")
    assert [word["word"] for word in answer["words"]] == ["He", "is", "in", "Paris", "."]
    assert max(answer["words"], key=lambda word: word["weight"])["word"] == "Paris"
    [answer] = ask_fine_tuned("tags", "He is in Paris.", "--why")
    best = [max(words, key=lambda word: word["weight"])["word"] for words in answer["entity_words"]]
    assert best == [entity["text"] for entity in answer["entities"]]
    with pytest.raises(ValueError, match="^why is not an option of FillMask; its options are top_k, candidates$"):
        ask("fill_mask", "[MASK]", "--why")


def test_a_reranker_orders_the_texts_of_all_columns_of_the_training(ask_fine_tuned, tmp_path):
    columns = {"text_column": "query", "text_pair_column": "good", "choice_columns": ["bad"]}
    stored = {"activation": "sigmoid", "max_seq_length": 16, **columns}
    write_fine_tuned(tmp_path / "run", fixed_classifier(1.0), "rerank", **stored)
    (tmp_path / "new.csv").write_text("query,bad,good\nhe was,hungry,so\n")
    [answer] = ask_fine_tuned(tmp_path / "run", f"--input_file={tmp_path / 'new.csv'}")
    assert sorted(text["text"] for text in answer["texts"]) == ["hungry", "so"]


@pytest.mark.parametrize("form", ["text", "pair"])
def test_the_columns_of_a_table_are_those_of_the_training(ask_fine_tuned, tmp_path, form):
    stored = {"text_column": "review"} | ({"text_pair_column": "reply"} if form == "pair" else {})
    settings = OF_TEXTS | LABELS | {"is_pair": form == "pair"} | stored
    write_fine_tuned(tmp_path / "run", fixed_classifier(1.0, 2.0), "classification", **settings)
    shutil.copytree(tmp_path / "run" / "model", tmp_path / "copy")
    (tmp_path / "new.csv").write_text("text,text_pair,review,reply\nwrong,wrong,he was,hungry\n")
    for name in ("run", "copy"):
        [answer] = ask_fine_tuned(tmp_path / name, f"--input_file={tmp_path / 'new.csv'}")
        assert (answer["text"], answer["text_pair"]) == ("he was", "hungry" if form == "pair" else None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["he"], r"^missing: --model_dir, or --task and --init_checkpoint \(--help says what each is for\)$"),
        (["--task=score", "he"], r"^missing: init_checkpoint \(help says what each is for\)$"),
        (["--init_checkpoint=model", "he"], r"^missing: task \(help"),
        (["--task=guess", "he"], "--task=guess"),
        (["--task=classification", "he"], "^--task=classification is for fine-tuned models; give one's folder as"),
        (["--model_dir=a", "--init_checkpoint=b"], "^there are both --model_dir and --init_checkpoint; give one of"),
        (
            ["--task=score", "--init_checkpoint=a", "--text_column=a", "he"],
            r"^--text_column is for a table as --input_file \(.csv, .tsv, .jsonl\); leave it out$",
        ),
    ],
)
def test_mistakes_in_flags(arguments, message):
    with pytest.raises(ValueError, match=message):
        predict.main(["predict.py", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["he", "--long=window"], "^--long: a fine-tuned model or an export sets this; leave it out$"),
        (["he", "--vocab_file=a", "--long=window"], "^--vocab_file, --long: a fine-tuned model or an export sets this"),
        (["he", "--top_k=3"], "^top_k is 3, but must be from 1 to the number of the model's labels, 2$"),
        (
            ["he", "--threshold=0"],
            "^threshold is not an option of TextClassifier for classification; its options are",
        ),
        (["he", "--candidates=a"], "^candidates is not an option of TextClassifier for classification"),
        (["he", "--task=regression"], "^task=regression, but .* has classification; leave it out"),
        (["he", "--words=conll"], "^words=conll, but .* is for classification, without this setting; leave it out$"),
        ([""], "^argument 1 has no word in its text; give a text$"),
        (["he", "--output_file=a"], "^there is no flag --output_file; results go to standard output, so end the comm"),
        (["he", "--wings=2"], 'flag --wings; an example: python predict.py --model_dir=output "A text'),
    ],
)
def test_mistakes_with_a_fine_tuned_model(ask_fine_tuned, arguments, message):
    with pytest.raises(ValueError, match=message):
        ask_fine_tuned("classification", *arguments)


@pytest.mark.parametrize(
    ("run", "name", "content", "program"),
    [
        ("tags", "tags.txt", "he B-PER\nwas O\n", "run_ner"),
        ("answers", "squad.json", '{"data": [{"title": "he", "paragraphs": []}]}', "run_squad"),
        ("ranks", "queries.csv", "asked,found,score\nhe was,so,1\n", "run_reranker"),
    ],
)
def test_a_file_like_that_of_the_training_leads_to_its_program(ask_fine_tuned, tmp_path, run, name, content, program):
    (tmp_path / name).write_text(content)
    with pytest.raises(Mistake, match=f"; to answer a file like that of the training, use {program}.py with do_"):
        ask_fine_tuned(run, f"--input_file={tmp_path / name}")
    with pytest.raises(FileNotFoundError, match="is not a file; give a text file, one text a line$"):
        ask_fine_tuned(run, f"--input_file={tmp_path / 'none.txt'}")


def test_a_fine_tuned_model_given_as_a_pretrained_one(fine_tuned):
    with pytest.raises(Mistake, match="^init_checkpoint=.*/pair is a fine-tuned model; give it as model_dir$"):
        predict.main(["predict.py", f"--init_checkpoint={fine_tuned / 'pair'}", "he"])


def test_another_backend_is_refused_before_tensorflow_starts(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    message = r"^Keras is set to run on jax \(by KERAS_BACKEND or ~/.keras/keras.json\), but prediction needs"
    with pytest.raises(ValueError, match=message):
        predict.main(["predict.py", "--task=score", "--init_checkpoint=a", "he"])


def test_a_mistake_is_one_line_of_standard_error(folder, capsys):
    argv = ["/somewhere/predict.py", "--task=score", f"--init_checkpoint={folder}", "[MASK]"]
    assert run_main(predict.main, argv) == 1
    captured = capsys.readouterr()
    last = captured.err.splitlines()[-1]
    assert last == "predict.py: argument 1 has a [MASK], but only complete texts can be scored; replace it with a word"
    assert captured.out == ""


def test_the_program_reads_and_writes_utf_8_on_every_system(folder, standard_input, monkeypatch):
    standard_input("首 [MASK]\n".encode())
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "argv", ["predict.py", "--task=fill_mask", f"--init_checkpoint={folder}", "--json"])
    with pytest.raises(SystemExit, match="^0$"):
        predict.run_program()
    [answer] = answers_in(output.buffer.getvalue().decode())
    assert (answer["text"], answer["masks"][0][0]["token"]) == ("首 [MASK]", "paris")


def test_the_python_of_the_page_runs(fine_tuned, tmp_path, monkeypatch, capsys):
    runs = {"shop": "classification", "bert_demo/questions_minilm": "answers", "bert_demo/entities_minilm": "tags"}
    (tmp_path / "bert_demo").mkdir()
    for name, run in runs.items():
        (tmp_path / name).symlink_to(fine_tuned / run)
    page = pathlib.Path(__file__).parents[1] / "docs" / "guides" / "predict.md"
    [block] = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "predict.md", "exec"), {})
    # The log may also go there if another test has opened a console.
    shown = capsys.readouterr().out.splitlines()
    of_class, of_answer, first, second = (line for line in shown if line.startswith(("yes", "Paris", "[(")))
    assert of_class.startswith("yes {'no': 0.26")
    assert of_answer.startswith("Paris 0.")
    assert of_answer.endswith(" Paris")
    assert [first, second] == ["[('Paris', 'LOC', 13, 18)]", "[('He', 'PER', 0, 2)]"]
