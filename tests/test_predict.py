"""The program from its command line to its answers."""

import io
import math
import subprocess
import sys

import pytest
from known_models import TOKENS, answers_in, constant_model, positional_model, write_model

import convert_checkpoint
import predict
import run_pretraining
from bert_keras.cli.flags import run_main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that answers paris 0.5, london 0.25 for every mask, and 0.9 for every pair."""
    model = constant_model({"paris": 0.5, "london": 0.25}, follows=0.9)
    return write_model(tmp_path_factory.mktemp("model"), model)


@pytest.fixture
def standard_input(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_flags_and_their_defaults_stay():
    flag_values = predict.define_flags()
    assert {name: flag_values[name].default for name in flag_values} == {
        "model_dir": None,
        "task": None,
        "init_checkpoint": None,
        "vocab_file": None,
        "bert_config_file": None,
        "do_lower_case": None,
        "input_file": None,
        "json": False,
        "top_k": 5,
        "long": "error",
        "batch_size": 16,
        "text_column": None,
        "text_pair_column": None,
        "choice_columns": [],
        "has_header": None,
        "on_error": "stop",
        "max_chars": 1_000_000,
        "max_sequences": 1_000,
        "max_masks": 100,
    }


def test_masks_are_filled_for_people(ask):
    assert ask("fill_mask", "He was [MASK].", "--top_k=2") == (
        "He was [MASK].\n  0.5000  paris   He was paris.\n  0.2500  london  He was london.\n"
    )


def test_several_masks_are_told_apart(ask):
    assert ask("fill_mask", "--top_k=1", "[MASK] is [MASK]", "[MASK]") == (
        "[MASK] is [MASK]\n"
        "  [MASK] 1 of 2\n  0.5000  paris  paris is [MASK]\n"
        "  [MASK] 2 of 2\n  0.5000  paris  [MASK] is paris\n"
        "  all filled: paris is paris\n"
        "[MASK]\n  0.5000  paris  paris\n"
    )


def test_masks_are_filled_for_programs(ask):
    first, second = answers_in(ask("fill_mask", "--json", "[MASK] é", "so [MASK]"))
    assert first["text"] == "[MASK] é"
    assert second["text"] == "so [MASK]"
    assert second["best"] == "so paris"
    assert len(first["masks"][0]) == 5
    assert first["masks"][0][0] == {
        "token": "paris",
        "probability": pytest.approx(0.5, abs=1e-6),
        "sentence": "paris é",
    }
    assert [guess["token"] for guess in second["masks"][0]][:2] == ["paris", "london"]


def test_json_is_readable_as_it_stands(ask):
    assert '"text": "é 首 [MASK]"' in ask("fill_mask", "--json", "é 首 [MASK]")


def test_pairs_are_judged_for_people(ask):
    assert ask("next_sentence", "he", "ate", "so", "he") == "0.9000  he  ->  ate\n0.9000  so  ->  he\n"
    assert ask("next_sentence", "he was\tso he ate") == "0.9000  he was  ->  so he ate\n"


def test_pairs_are_judged_for_programs(ask):
    [answer] = answers_in(ask("next_sentence", "he", "ate", "--json"))
    assert answer == {"text_a": "he", "text_b": "ate", "probability": pytest.approx(0.9, abs=1e-6)}


def test_texts_are_scored_for_people(ask):
    assert ask("score", "paris london") == ("-2.0794  perplexity 2.828  paris london\n  paris -0.69 london -1.39\n")


def test_texts_are_scored_for_programs(ask):
    [answer] = answers_in(ask("score", "paris london", "--json"))
    assert answer == {
        "text": "paris london",
        "log_probability": pytest.approx(-3 * math.log(2), abs=1e-5),
        "perplexity": pytest.approx(2**1.5, abs=1e-5),
        "tokens": [
            {"token": "paris", "log_probability": pytest.approx(-math.log(2), abs=1e-5)},
            {"token": "london", "log_probability": pytest.approx(-2 * math.log(2), abs=1e-5)},
        ],
    }


TEXTS_OF = {
    "fill_mask": ["he was [MASK]", "[MASK] is"],
    "next_sentence": ["he was\tso he ate", "a\tb"],
    "score": ["he was", "paris"],
}


@pytest.mark.parametrize("task", TEXTS_OF)
def test_arguments_a_file_and_standard_input_give_the_same(ask, task, tmp_path, standard_input, capsys):
    expected = ask(task, "--json", *TEXTS_OF[task])
    assert len(answers_in(expected)) == 2
    content = "\ufeff{}\r\n\n{}\n".format(*TEXTS_OF[task]).encode()
    (tmp_path / "texts.txt").write_bytes(content)
    assert ask(task, "--json", f"--input_file={tmp_path / 'texts.txt'}") == expected
    standard_input(content)
    assert ask(task, "--json") == expected


def test_only_line_ends_end_a_text(ask, tmp_path):
    (tmp_path / "texts.txt").write_text("he\u2028was [MASK]\x0c\nso [MASK]", encoding="utf-8")
    first, second = answers_in(ask("fill_mask", "--json", f"--input_file={tmp_path / 'texts.txt'}"))
    assert first["text"] == "he\u2028was [MASK]\x0c"
    assert second["text"] == "so [MASK]"


def test_the_log_goes_to_standard_error(folder, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text("he\n\n\n was\n")
    predict.main(
        ["predict.py", "--task=score", f"--init_checkpoint={folder}", "--json", f"--input_file={tmp_path}/texts.txt"]
    )
    captured = capsys.readouterr()
    assert len(answers_in(captured.out)) == 2
    assert "texts.txt: blank lines that were skipped: 2" in captured.err
    assert "loaded " in captured.err
    assert "lower-casing text (guessed from the words of" in captured.err


def test_flags_reach_the_model(tmp_path, capsys):
    folder = write_model(tmp_path / "model", positional_model(["p", "a", "b", "c", "d"]))
    for name in ("vocab.txt", "bert_config.json"):
        (folder / name).rename(tmp_path / name)
    argv = ["predict.py", "--task=fill_mask", f"--init_checkpoint={folder}", "--json", "--do_lower_case=false"]
    argv += [f"--vocab_file={tmp_path / 'vocab.txt'}", f"--bert_config_file={tmp_path / 'bert_config.json'}"]
    argv += ["--long=window", "--batch_size=1", "--top_k=3", "is " * 50 + "[MASK]", "[MASK] is"]
    predict.main(argv)
    captured = capsys.readouterr()
    assert [len(answer["masks"][0]) for answer in answers_in(captured.out)] == [3, 3]
    # The last window ends with the text; the text's last token is the 38th of the window.
    assert [answer["masks"][0][0]["token"] for answer in answers_in(captured.out)] == ["c", "a"]
    assert "keeping capital letters (as requested)" in captured.err
    assert "argument 1 has 51 tokens, 13 more than the 38 that the model takes; it is read through" in captured.err


def test_the_folder_of_a_run_answers(tmp_path, tiny_config, write_records, capsys):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    write_records(tmp_path / "train.tfrecord", 8)
    run_pretraining.main(
        ["run_pretraining.py", "--do_train", "--num_train_steps=1", "--train_batch_size=4", "--max_seq_length=12"]
        + [f"--input_file={tmp_path / 'train.tfrecord'}", "--max_predictions_per_seq=3"]
        + [f"--bert_config_file={tmp_path / 'bert_config.json'}", f"--vocab_file={tmp_path / 'vocab.txt'}"]
        + [f"--output_dir={tmp_path / 'model'}"]
    )
    capsys.readouterr()
    predict.main(["predict.py", "--task=fill_mask", f"--init_checkpoint={tmp_path / 'model'}", "--json", "he [MASK]"])
    captured = capsys.readouterr()
    [answer] = answers_in(captured.out)
    # One update at rate 0 leaves the initial weights: about uniform predictions over the vocabulary.
    assert [guess["probability"] for guess in answer["masks"][0]] == pytest.approx([1 / 40] * 5, rel=0.2)
    assert f"from {tmp_path / 'model' / 'model.ckpt-1'}" in captured.err
    assert "sequences have at most 12 tokens (as in training)" in captured.err


def test_a_converted_model_gives_the_same_answers(folder, ask, tmp_path, capsys):
    expected = {task: ask(task, "--json", *TEXTS_OF[task]) for task in TEXTS_OF}
    source = folder
    for file_format in ("safetensors", "tensorflow"):
        target = tmp_path / file_format
        convert_checkpoint.main(
            ["convert_checkpoint.py", f"--input={source}", f"--output={target}", f"--format={file_format}"]
        )
        for task, output in expected.items():
            capsys.readouterr()
            predict.main(["predict.py", f"--task={task}", f"--init_checkpoint={target}", "--json", *TEXTS_OF[task]])
            assert capsys.readouterr().out == output
        source = target


def test_an_argument_may_begin_with_a_dash_after_two(ask):
    [answer] = answers_in(ask("score", "--json", "--", "--a"))
    assert answer["text"] == "--a"


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        ("fill_mask", ["he was"], r'^argument 1 has no \[MASK\]: "he was"; write \[MASK\] where'),
        ("fill_mask", ["[MASK]", ""], r'^argument 2 has no \[MASK\]: ""; write'),
        ("fill_mask", ["is " * 40 + "[MASK]"], "^argument 1 has 41 tokens, 3 more than the 38 that the model takes"),
        ("fill_mask", ["[MASK]", "--top_k=100"], "^--top_k is 100, but must be from 1 to the vocabulary's 40$"),
        ("score", [""], "^argument 1 has no word; give a text to score$"),
        ("score", ["he", "--top_k=3"], "^--top_k is for --task=fill_mask; leave it out for --task=score$"),
        (
            "next_sentence",
            ["he"],
            "^--task=next_sentence takes two texts for each pair, but 1 were given; give an even",
        ),
        ("next_sentence", ["he", "was", "so"], "takes two texts for each pair, but 3 were given"),
        ("next_sentence", ["he\twas", "so"], "^argument 2 has 0 tabs, but a pair is two texts with one tab between"),
        (
            "next_sentence",
            ["he\twas\tso"],
            "^argument 1 has 2 tabs, but a pair is two texts with one tab between them$",
        ),
        ("next_sentence", ["he", ""], "^pair 1 has no word in its second text; give two texts$"),
        ("next_sentence", ["\the"], "^argument 1 has no word in its first text; give two texts$"),
        (
            "score",
            ["he", "--input_file=a.txt"],
            '^there are both --input_file=a.txt and the text "he"; give one of them',
        ),
        ("score", ["--long=cut", "he"], "--long=cut"),
        ("score", ["--batch_size=0", "he"], "--batch_size=0"),
        ("guess", ["he"], "--task=guess"),
    ],
)
def test_mistakes_are_one_sentence(ask, task, arguments, message):
    with pytest.raises(ValueError, match=message):
        ask(task, *arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"he\n\nwas [MASK]\n", r"texts.txt line 1 has no \[MASK\]"),
        (b"[MASK]\n\nwas\n", r"texts.txt line 3 has no \[MASK\]"),
        (b"[MASK]\n\xff[MASK]\n", r"texts.txt line 2: not UTF-8 \(byte 0xff\); save it as UTF-8"),
        (b"\n \n", "texts.txt holds no text; give one text a line"),
        (b"", "texts.txt holds no text; give one text a line"),
    ],
)
def test_mistakes_in_a_file_name_its_line(ask, tmp_path, content, message):
    (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ask("fill_mask", f"--input_file={tmp_path / 'texts.txt'}")


def test_mistakes_on_standard_input_name_its_line(ask, standard_input):
    standard_input(b"[MASK]\nhe\n")
    with pytest.raises(ValueError, match=r"^standard input line 2 has no \[MASK\]"):
        ask("fill_mask")
    standard_input(b"")
    with pytest.raises(ValueError, match=r"^standard input holds no text; give one text a line$"):
        ask("fill_mask")


def test_a_terminal_is_not_waited_for(ask, standard_input, monkeypatch):
    standard_input(b"")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    with pytest.raises(
        ValueError, match=r"^no text was given; give it as an argument, in --input_file or on standard input$"
    ):
        ask("score")


def test_a_file_that_is_not_there_is_named(ask, tmp_path):
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(FileNotFoundError, match=rf"^--input_file={path} is not a file; give a text file, one text"):
            ask("score", f"--input_file={path}")


def test_all_that_is_missing_is_named_at_once():
    with pytest.raises(ValueError, match=r"^missing: --model_dir, or --task and --init_checkpoint \(--help says what"):
        predict.main(["predict.py", "he"])
    for given, missing in (("--task=score", "--init_checkpoint"), ("--init_checkpoint=model", "--task")):
        with pytest.raises(ValueError, match=rf"^missing: {missing} \(--help says what each is for\)$"):
            predict.main(["predict.py", given, "he"])


def test_a_mistake_found_in_the_library_has_no_traceback(folder, capsys):
    argv = ["/somewhere/predict.py", "--task=score", f"--init_checkpoint={folder}", "[MASK]"]
    assert run_main(predict.main, argv) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "predict.py: argument 1 has a [MASK], but only complete texts can be scored; replace it with a word"


def test_help_shows_the_three_tasks(capsys):
    with pytest.raises(SystemExit):
        predict.main(["predict.py", "--help"])
    shown = capsys.readouterr().out
    for task in ("fill_mask", "next_sentence", "score"):
        assert f"--task={task}" in shown


def test_the_program_answers_as_a_program(folder):
    finished = subprocess.run(
        [sys.executable, predict.__file__, "--task=fill_mask", f"--init_checkpoint={folder}", "--json"],
        input="首 [MASK]\n".encode(),
        capture_output=True,
        check=True,
    )
    [answer] = answers_in(finished.stdout.decode())
    assert answer["text"] == "首 [MASK]"
    assert answer["masks"][0][0]["token"] == "paris"
