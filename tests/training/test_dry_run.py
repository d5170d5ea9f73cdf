"""`--dry_run` reports what the files of a run hold, and every run finds the mistakes in them before TensorFlow."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from fine_tuned_models import write_foreign
from known_models import random_model, write_model
from training_programs import (
    check_labels,
    run_classifier,
    run_few_shot,
    run_ner,
    run_reranker,
    run_sentence_vectors,
    run_squad,
)

from bert_keras import train_classifier
from bert_keras.cli.flags import run_main
from bert_keras.mistakes import Mistake

ROOT = pathlib.Path(__file__).resolve().parents[2]
THIRD = ROOT.parent / "shared" / "data" / "awkward" / "third"
TOPICS = "".join(f"text {number} of the class,{'rare' if number % 12 == 0 else 'usual'}\n" for number in range(48))


@pytest.fixture
def look(capsys, tmp_path, monkeypatch):
    """Return a function that looks at the files of a program's flags: status, report and mistake, each in one line."""
    monkeypatch.chdir(tmp_path)

    def look(program, *flags):
        before = sorted(tmp_path.iterdir())
        status = run_main(program.main, [f"{program.name}.py", "--dry_run", *flags])
        assert sorted(tmp_path.iterdir()) == before
        shown = capsys.readouterr()
        assert max(map(len, shown.out.split("\n"))) <= 80
        return status, " ".join(shown.out.split()), " ".join(shown.err.split())

    return look


def squad_file(write, name, questions):
    """Writes questions: tuples of an id, a question and an answer, or None, in the text of the first paragraph."""
    context = "Rivers flow to the sea. Mountains are high."
    rows = [
        {
            "id": id_,
            "question": question,
            "answers": [{"text": answer, "answer_start": context.find(answer)}] if answer else [],
            "is_impossible": not answer,
        }
        for id_, question, answer in questions
    ]
    return write(name, json.dumps({"data": [{"paragraphs": [{"context": context, "qas": rows}]}]}))


def test_a_table_of_classes(write, look):
    write("a.csv", "text,label\ngood food,pos\nbad food and noise,neg\nGood  Food,neg\nnice,pos\ncold,neg\n")
    write("b.csv", "text,label\nnice,pos\nwarm,neg\n")
    status, report, mistake = look(run_classifier, "--train_file=a.csv", "--eval_file=b.csv")
    assert (status, mistake) == (0, "")
    columns = 'columns text, label; using "text" as the text, "label" as the label'
    header = "the first row names the columns, because its cells are usual names"
    assert f"a.csv (--train_file) read as cells are separated by commas {columns} {header} examples 5" in report
    first = 'examples 5, of which the first are pos: "good food" neg: "bad food and noise" neg: "Good Food" labels'
    assert first in report
    assert "labels 2: neg (3), pos (2)" in report
    assert "words median 2, 95 % up to 4, longest 4 (line 3)" in report
    assert "equal texts 1 of 5 repeat an earlier one, such as line 4, the same as line 2" in report
    assert "texts with different labels: 1, such as line 2 (pos), line 4 (neg)" in report
    assert "1 of the 2 texts of b.csv are also in a.csv, such as line 2 (line 5 there)" in report


def test_what_is_held_out_and_the_classes_that_are_small(write, look):
    write("a.csv", "text,label\n" + TOPICS + "alone,single\n")
    _, report, _ = look(run_classifier, "--train_file=a.csv", "--eval_share=0.25")
    assert "12 of 49 examples, chosen at random within each label, are held out for evaluation" in report
    assert "held out 12: usual (11), rare (1)" in report
    assert "no held-out example has these labels, which are too rare (with their examples): single (1)" in report
    weights = '"single" has 1 examples, but "usual" has 33; --class_weights=balanced gives rare classes more weight'
    assert weights in report
    _, report, _ = look(run_classifier, "--train_file=a.csv", "--eval_share=0.25", "--class_weights=balanced")
    assert "rare classes more weight" not in report


def test_all_bad_rows_are_counted_and_three_are_shown(write, look):
    bad = "".join(f",{number}\n" for number in range(5))
    write("a.csv", f"text,label\na b,x\n{bad}c,y\nd,y,z\n")
    status, report, mistake = look(run_classifier, "--train_file=a.csv")
    empty = 'a.csv line {}: the column "text" is empty; give a text, or remove the row'
    assert status == 1
    assert mistake.startswith(f"run_classifier.py: {empty.format(3)}; {empty.format(4)}; ")
    assert mistake.endswith("; and 3 more bad rows (--skip_bad_rows leaves such rows out)")
    assert f"bad rows 6 {' '.join(empty.format(line) for line in (3, 4, 5))} examples 2" in report
    status, report, mistake = look(run_classifier, "--train_file=a.csv", "--skip_bad_rows")
    assert (status, mistake) == (0, "")
    assert "bad rows 6, which are left out" in report
    write("a.jsonl", "3\n")
    rest = "a.jsonl line 1: a JSON int instead of an object; write one object in a line"
    for flags in ([], ["--skip_bad_rows"]):
        mistake = look(run_classifier, "--train_file=a.jsonl", *flags)[2]
        assert mistake == f"run_classifier.py: {rest}"


def test_bad_rows_of_a_known_task_are_left_out(write, look):
    write("train.tsv", "sentence\tlabel\na\t0\nb\nc\t1\n")
    flags = ("--task_name=sst-2", "--data_dir=.", "--do_train")
    bad = "train.tsv line 3: 1 of at least 2 cells; restore the row"
    assert look(run_classifier, *flags)[2] == f"run_classifier.py: {bad} (--skip_bad_rows leaves such rows out)"
    status, report, mistake = look(run_classifier, *flags, "--skip_bad_rows")
    assert (status, mistake) == (0, "")
    assert f"bad rows 1, which are left out {bad}" in report


def test_all_mistakes_are_reported_together(write, look):
    write("a.csv", "Body,Kind\na b,x\nc d,y\n")
    write("b.csv", "text,label\n,x\n")
    flags = ("--train_file=a.csv", "--eval_file=b.csv", "--predict_file=none.csv")
    status, _, mistake = look(run_classifier, "--text_column=text", "--label_column=label", *flags)
    assert status == 1
    assert mistake.startswith("run_classifier.py: 3 mistakes: - ")
    assert 'b.csv line 2: the column "text" is empty' in mistake
    assert "none.csv" in mistake
    status, _, mistake = look(run_classifier, "--do_train", "--do_eval", "--label_column=no", "--train_file=a.csv")
    assert "2 mistakes" in mistake
    assert "--do_eval needs --eval_file, or --eval_share of --train_file to hold out" in mistake


@pytest.mark.parametrize(
    ("flags", "content", "expected"),
    [
        (
            ["--kind=regression"],
            "text,label\na,1\nb c,2.5\nd,5\n",
            "labels numbers from 1 to 5, mean 2.833, standard dev",
        ),
        (
            ["--kind=multi_label", "--label_separator=;"],
            "text,label\na,x;y\nb,\nc,y\n",
            "labels 2: y (2), x (1) 1 texts have several labels, 1 have none",
        ),
        (
            ["--kind=multiple_choice", "--choice_columns=c,d", "--text_column=a"],
            "a,c,d,label\nq,one two three,two,0\nr,x,y,1\n",
            '0: "q" | "one two three" | "two" 1: "r" | "x" | "y" labels 2: 0 (1), 1 (1)',
        ),
    ],
)
def test_the_other_kinds_of_labels(write, look, flags, content, expected):
    write("a.csv", content)
    status, report, mistake = look(run_classifier, "--train_file=a.csv", *flags)
    assert (status, mistake) == (0, "")
    assert expected in report


def test_few_labels(write, look):
    write("a.csv", "text_a,text_b,label\na,b c,x\nd,e,y\n")
    status, report, mistake = look(run_few_shot, "--train_file=a.csv")
    assert (status, mistake) == (0, "")
    assert 'x: "a" | "b c" y: "d" | "e" labels 2' in report


def test_names_of_classes_need_no_file_to_train_on(write, look):
    write("a.csv", "text,label\nx,cats\ny,dogs\n")
    flags = ("--do_train", "--class_names=cats,dogs", "--eval_file=a.csv", "--do_eval")
    assert look(run_few_shot, *flags)[0] == 0
    write("a.csv", "text,label\nx,cats\ny,cows\n")
    assert 'label "cows" is not one of cats, dogs' in look(run_few_shot, *flags)[2]


def test_queries_and_their_texts(write, look):
    rows = "query,positive,negative\n" + "".join(f"query {n},fits {n},other {n}\n" for n in range(4))
    write("a.csv", rows)
    status, report, _ = look(run_reranker, "--train_file=a.csv")
    assert status == 0
    assert "queries 4 with 2.0 texts each, of which 1.0 fit" in report
    assert 'texts 8, of which the first are 1: "query 0" | "fits 0"' in report
    write("b.csv", "query,positive\na,b\n")
    assert "all texts fit their queries" in look(run_reranker, "--train_file=b.csv")[2]
    write("c.csv", "query,positive,negative\na,b,c\nquery 2,b,c\n")
    report = look(run_reranker, "--train_file=a.csv", "--eval_file=c.csv")[1]
    assert "1 of the 2 texts of c.csv are also in a.csv, such as line 3 (line 4 there)" in report
    write("c.jsonl", '{"query": "a b", "texts": ["c", "d"]}\n')
    report = look(run_reranker, "--predict_file=c.jsonl")[1]
    assert '2, of which the first are "a b" | "c" "a b" | "d" queries 1 with 2.0 texts each words' in report


@pytest.mark.parametrize(
    ("program", "setting", "content", "expected"),
    [
        (run_reranker, "eval_file", "query,positive\na,b\n", "so every model would be perfect"),
        (run_reranker, "eval_file", "query,text,score\na,b,0\n", 'the query "a" has no text that fits'),
        (
            run_classifier,
            "class_weights=1,2,3 --train_file",
            "text,label\na,x\nb,y\n",
            "nor 2 numbers, one for each",
        ),
        (run_classifier, "doc_stride=500 --train_file", "text,label\na,x\nb,y\n", "but must be from 1 to 126"),
        (run_squad, "max_seq_length=60 --train_file", "context,question,answer\na,b,a\n", "leaves no room for a text"),
        (run_sentence_vectors, "eval_file", "text\na\nb\n", "has only texts"),
        (run_sentence_vectors, "train_file", "text,text_pair,score\na,b,0\n", "all scores are 0"),
        (
            run_sentence_vectors,
            "max_score=3 --train_file",
            "text,text_pair,score\na,b,2\nc,d,-4\n",
            "--max_score=3.0 is less than the score -4 in",
        ),
        (run_sentence_vectors, "train_file", "text,text_pair\na,b\na,c\n", "same first or the same second text"),
    ],
)
def test_a_look_finds_what_nothing_can_be_learned_from(program, setting, content, expected, write, look):
    write("a.csv", content)
    assert expected in look(program, *f"--{setting}=a.csv".split())[2]


def test_vectors(write, look):
    write("a.csv", "sentence1,sentence2,score\na b,c,1\nd,e f g,4\nd,e f g,2\n")
    write("b.txt", "one\ntwo words\n")
    status, report, mistake = look(run_sentence_vectors, "--train_file=a.csv", "--predict_file=b.txt")
    assert (status, mistake) == (0, "")
    assert 'scores 3, of which the first are 1.0: "a b" | "c"' in report
    assert "words median 3, 95 % up to 3, longest 3 (line 3) (the longer text)" in report
    assert 'texts 2, of which the first are "one" "two words"' in report
    write("a.csv", "sentence1,sentence2,score\na,b,1\n,b,2\nc,d\ne,,3\n")
    status, report, mistake = look(run_sentence_vectors, "--train_file=a.csv")
    assert status == 1
    assert "bad rows 2" in report


def test_tagged_words(write, look):
    write("a.txt", "Ada B-PER\nsleeps O\n\nBonn B-LOC\nis O\nbig O\n\nAda B-PER\nsleeps O\n\nNew B-LOC\nYork I-LOC\n")
    write("b.txt", "ada B-LOC\nsleeps O\n")
    status, report, mistake = look(run_ner, "--train_file=a.txt", "--eval_file=b.txt")
    assert (status, mistake) == (0, "")
    assert "sentences 4, of which the first are Ada/B-PER sleeps Bonn/B-LOC is big Ada/B-PER sleeps entities" in report
    assert "entities 4 of 2 types: PER (2), LOC (2)" in report
    assert "tags 4 of 9 words are in no entity (44.4 %)" in report
    assert "equal texts 1 of 4 repeat an earlier one, such as line 8, the same as line 1" in report
    assert "1 of the 1 texts of b.txt are also in a.txt" in report
    write("b.txt", "Rhine B-RIVER\n")
    assert (
        'the tag "B-RIVER" is not one of those of training'
        in look(run_ner, "--train_file=a.txt", "--eval_file=b.txt")[2]
    )


@pytest.mark.parametrize("program", [run_classifier, run_ner])
def test_a_teacher_decides_the_labels(program, write, look, tmp_path):
    is_tags = program is run_ner
    (tmp_path / "teacher" / "model").mkdir(parents=True)
    task = {"task": "token_classification" if is_tags else "classification", "labels": ["O", "B-X", "B-Y"]}
    write("teacher/model/task.json", json.dumps(task))

    def mistake_with(label, *flags):
        for name, labels in (("a.csv", ["O", "B-X"]), ("b.csv", ["O", label])):
            rows = ["text,label", *(f"{name} {each},{each}" for each in labels)]
            if is_tags:
                rows = ["Sentence #,Word,Tag", *(f"Sentence: {each},{each},{each}" for each in labels)]
            write(name, "\n".join(rows) + "\n")
        return look(program, "--train_file=a.csv", "--eval_file=b.csv", *flags)[2]

    assert '"B-Y" is not one of' in mistake_with("B-Y")
    assert mistake_with("B-Y", "--teacher=teacher") == ""
    unknown = '"B-Z" is not one of .*; a student has the labels of its --teacher'
    assert re.search(unknown, mistake_with("B-Z", "--teacher=teacher"))
    assert mistake_with("B-Z", "--teacher=hf://owner/name") == ""
    write("teacher/model/task.json", "[]")
    assert "task.json line 1: a JSON list where an object {...} is needed" in mistake_with("B-Y", "--teacher=teacher")


def test_texts_without_labels_need_only_a_teacher(write, look):
    write("a.csv", "text\na\nb\n")
    status, report, mistake = look(run_classifier, "--unlabeled_file=a.csv", "--teacher=hf://owner/name")
    assert (status, mistake) == (0, "")
    assert "examples 2" in report


def test_questions(write, look):
    asked = [
        ("a", "Where do rivers go?", "the sea"),
        ("b", "Who sings?", None),
        ("c", "Where do rivers go?", "the sea"),
    ]
    squad_file(write, "a.json", asked)
    status, report, mistake = look(run_squad, "--train_file=a.json", "--version_2_with_negative")
    assert (status, mistake) == (0, "")
    assert 'questions 3, of which the first are "the sea": "Where do rivers go?" no answer: "Who sings?"' in report
    assert "answers 2 questions with an answer, 1 without contexts 1, with 3.0 questions each" in report
    assert "words of contexts: median 8, 95 % up to 8, longest 8 of questions: median 4" in report
    assert 'equal texts 1 of 3 repeat an earlier one, such as question "c", the same as question "a"' in report
    assert "give --version_2_with_negative" in look(run_squad, "--train_file=a.json")[2]
    squad_file(write, "twice.json", [("a", "Who sings?", "Rivers"), ("a", "Where do rivers go?", "the sea")])
    report = look(run_squad, "--train_file=twice.json")[1]
    assert '"Rivers": "Who sings?" "the sea": "Where do rivers go?"' in report
    assert "2 questions with an answer, 0 without" in report
    assert "has no answers to compare with" in look(run_squad, "--eval_file=a.json")[2]


def test_the_words_of_texts_with_spans(write, look, tmp_path):
    write("a.jsonl", '{"text": "he was in New-York/London", "label": [[10, 18, "LOC"]]}\n')
    model = write_model(tmp_path / "model", random_model())
    assert "New-York/B-LOC /London" in look(run_ner, "--train_file=a.jsonl")[1]
    in_pieces = "New/B-LOC -/I-LOC York/I-LOC / London"
    assert in_pieces in look(run_ner, "--train_file=a.jsonl", "--words=transformers", f"--init_checkpoint={model}")[1]
    for path in ((), ("--init_checkpoint=hf://owner/name",)):
        mistake = look(run_ner, "--train_file=a.jsonl", "--words=transformers", *path)[2]
        assert "--words=transformers needs the tokenizer of the model, which a dry run does not download" in mistake
    other = write_foreign(tmp_path / "other", "token_classification", id2label={0: "O", 1: "B-LOC", 2: "I-LOC"})
    assert in_pieces in look(run_ner, "--eval_file=a.jsonl", f"--init_checkpoint={other}")[1]
    shown = look(run_ner, "--eval_file=a.jsonl", "--words=conll", f"--init_checkpoint={other}")[1]
    assert "New-York/B-LOC /London" in shown


def test_the_files_of_label_checks(write, look):
    write("a.csv", "text,label\none,x\ntwo,y\nONE,y\n")
    write("b.csv", "text\ntwo\nthree\n")
    status, report, mistake = look(check_labels, "--train_file=a.csv", "--unlabeled_file=b.csv")
    assert (status, mistake) == (0, "")
    assert "texts with different labels: 1, such as line 2 (x), line 4 (y)" in report
    assert "1 of the 2 texts of b.csv are also in a.csv, such as line 2 (line 3 there)" in report
    write("c.csv", "text,label\none,x\ntwo,x\n")
    assert 'one class only, "x"' in look(check_labels, "--train_file=c.csv")[2]


def test_a_look_without_files_says_what_to_give(look):
    for program in (run_classifier, run_few_shot, run_reranker, run_sentence_vectors, run_squad, run_ner, check_labels):
        status, report, mistake = look(program)
        assert (status, report) == (1, "")
        assert "--train_file" in mistake


@pytest.mark.parametrize(
    ("program", "flag", "message"),
    [
        (run_classifier, "--vocab_file=v.txt", "v.txt has 5 tokens, but the model has 6000 rows of word embeddings"),
        (
            check_labels,
            "--max_seq_length=200",
            "--max_seq_length=200 is more than the 128 positions",
        ),
        (run_few_shot, "--do_lower_case=false", "sets do_lower_case=True for its vocabulary; leave it out"),
        (run_classifier, "--freeze_layers=5", "--freeze_layers=5, but the model has 4 layers; give 4 or less"),
        (run_classifier, "--lora_rank=257", "--lora_rank is 257, but must be a whole number from 1 to the hidden size"),
    ],
)
def test_settings_are_compared_with_a_model_that_is_here(write, look, program, flag, message):
    write("a.csv", f"text,label\n{TOPICS}")
    write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    model = f"--init_checkpoint={ROOT}/data_prep/sample/encoder"
    status, _, mistake = look(program, "--train_file=a.csv", model, flag)
    assert status == 1
    assert message in mistake


# Runs programs in one process, and ends with an error if one of them imports TensorFlow or Keras.
WITHOUT_TENSORFLOW = """
import contextlib, io, sys
from bert_keras.programs.command import PROGRAMS
from bert_keras.cli.flags import run_main
flags = ["--output_dir=out", "--do_train", "--do_eval", "--init_checkpoint=none"]
for program, file in zip(sys.argv[1::2], sys.argv[2::2]):
    main = PROGRAMS[program].main
    assert run_main(main, [program, "--dry_run", f"--train_file={file}"]) == 0, program
    actions = flags if program != "check_labels" else ["--output_dir=out", "--init_checkpoint=none"]
    assert run_main(main, [program, *actions, "--train_file=none.csv"]) == 1, program
    with contextlib.suppress(SystemExit):
        main([program, "--help"])
    assert not {"tensorflow", "keras"} & set(sys.modules), program
"""


def test_looks_help_and_mistakes_in_files_need_neither_tensorflow_nor_keras(write, tmp_path):
    table, pairs = write("a.csv", "text,label\na,x\nb,y\n"), write("b.csv", "sentence1,sentence2\na,b\nc,d\n")
    files = {
        "run_classifier": table,
        "check_labels": table,
        "run_few_shot": table,
        "run_sentence_vectors": pairs,
        "run_reranker": write("e.csv", "query,positive,negative\na,b,c\n"),
        "run_ner": write("c.txt", "Ada B-PER\nsings O\n"),
        "run_squad": squad_file(write, "d.json", [("a", "Where?", "the sea")]),
    }
    arguments = [str(word) for pair in files.items() for word in pair]
    command = [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{WITHOUT_TENSORFLOW}", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_run_finds_the_mistakes_of_its_files_before_those_of_its_model(write, capsys, tmp_path):
    path = write("a.csv", "text,label\na,x\n,y\nb,x\n,z\n")
    flags = ["--do_train", f"--train_file={path}", f"--output_dir={tmp_path}/out", "--init_checkpoint=none"]
    assert run_main(run_classifier.main, ["run_classifier.py", *flags]) == 1
    assert 'a.csv line 3: the column "text" is empty' in capsys.readouterr().err
    # A file that the run does not read is not its concern.
    flags = ["--do_train", "--skip_bad_rows", f"--predict_file={tmp_path}/none.csv", *flags[1:]]
    assert run_main(run_classifier.main, ["run_classifier.py", *flags]) == 1
    assert "none.csv" not in capsys.readouterr().err


@pytest.mark.parametrize("program", [run_classifier, run_squad])
def test_without_training_a_model_that_is_elsewhere_decides_how_files_are_read(program, write, capsys, tmp_path):
    table = write("a.csv", "text,label\na,\nb,x\n")
    path = table if program is run_classifier else squad_file(write, "a.json", [("a", "Where?", None)])
    flags = ["--do_eval"] if program is run_classifier else []
    flags += [f"--eval_file={path}", f"--output_dir={tmp_path}/out", f"--init_checkpoint={tmp_path}/none"]
    assert run_main(program.main, [f"{program.name}.py", *flags]) == 1
    assert "bert_config.json" in capsys.readouterr().err


def test_mistakes_in_data_in_memory_are_reported_together(tmp_path):
    rows = [{"text": "a", "label": "x"}, {"text": "", "label": "y"}]
    with pytest.raises(Mistake) as mistake:
        train_classifier(rows, do_eval=True, output_dir=tmp_path / "out", init_checkpoint=tmp_path / "none")
    assert "2 mistakes" in str(mistake.value)
    assert 'train_data row 1: the column "text" is empty' in str(mistake.value)
    assert "needs eval_data, or eval_share of train_data to hold out" in str(mistake.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not THIRD.is_dir(), reason="needs the files of odd input")
@pytest.mark.parametrize(
    ("program", "flags", "expected"),
    [
        (run_classifier, ["--train_file=duplicates_random_labels.csv", "--eval_share=0.25"], "stay together"),
        (run_classifier, ["--train_file=list.json"], 'pos: "a" neg: "b"'),
        (run_classifier, ["--train_file=snli_dash.csv"], "labels"),
    ],
)
def test_files_of_odd_input(look, program, flags, expected):
    status, report, _ = look(program, *(flag.replace("_file=", f"_file={THIRD}/") for flag in flags))
    assert status == 0
    assert expected in report


def test_word_pieces_of_the_vocabulary_of_the_model(write, look, tmp_path):
    (tmp_path / "model").mkdir()
    write("model/vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "c"]))
    write("a.csv", "text,label\nab abb c,x\nc,y\na a,x\n")
    flags = ("--train_file=a.csv", "--init_checkpoint=model")
    _, report, _ = look(run_classifier, *flags)
    assert "word pieces median 2, 95 % up to 6, longest 6; all fit, with up to 126, into --max_seq_length=128" in report
    _, report, _ = look(run_classifier, *flags, "--max_seq_length=5")
    assert "longest 6; 33.3 % have more than the 3 that fit into --max_seq_length=5" in report
    assert "word pieces" not in look(run_classifier, "--train_file=a.csv", "--init_checkpoint=hf://owner/name")[1]
