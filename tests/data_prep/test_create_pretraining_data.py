"""The command line: the original flags, the original examples, and one error message for each mistake."""

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from tiny_data import examples_of, parsed_examples_of

from bert_keras.data_prep.corpus.workers import ThisProcess
from bert_keras.data_prep.create_pretraining_data import build, define_flags, main, run
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.storage import paths

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "create_pretraining_data.py"

GOLDEN_RUNS = ["sample_cased_short", "sample_default", "sample_wwm_seq64", "wiki_seq128"]


def assert_same_examples(ours, golden):
    ours, golden = parsed_examples_of(ours), parsed_examples_of(golden)
    assert len(ours) == len(golden) > 0
    for number, (example, expected) in enumerate(zip(ours, golden, strict=True)):
        assert example == expected, f"example {number}"


@pytest.mark.parametrize("name", GOLDEN_RUNS)
def test_examples_are_those_of_the_release(name, shared_dir, tmp_path, monkeypatch):
    golden, vocab_file = shared_dir("golden/create_pretraining_data"), shared_dir("data/vocab/uncased.txt")
    flags = (golden / f"{name}.tfrecord.flags").read_text().split()
    monkeypatch.chdir(golden)
    main([PROGRAM, *flags, f"--vocab_file={vocab_file}", f"--output_file={tmp_path}/out"])
    assert_same_examples(tmp_path / "out", golden / f"{name}.tfrecord")


def test_two_inputs_into_two_outputs_as_the_release(shared_dir, tmp_path, monkeypatch):
    golden, vocab_file = shared_dir("golden/create_pretraining_data"), shared_dir("data/vocab/uncased.txt")
    monkeypatch.chdir(golden)
    flags = [
        "--input_file=sample_text.txt,wiki_small.txt",
        "--max_seq_length=96",
        "--max_predictions_per_seq=14",
        "--random_seed=5",
        "--dupe_factor=1",
        "--do_lower_case=True",
    ]
    main([PROGRAM, *flags, f"--vocab_file={vocab_file}", f"--output_file={tmp_path}/0,{tmp_path}/1"])
    for number in (0, 1):
        assert_same_examples(tmp_path / str(number), golden / f"two_inputs_{number}.tfrecord")


def test_flags_and_defaults_are_those_of_the_release():
    values = define_flags()
    assert values.flag_values_dict() == {
        "input_file": None,
        "output_file": None,
        "vocab_file": None,
        "do_lower_case": True,
        "strip_accents": None,
        "do_whole_word_mask": False,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "random_seed": 12345,
        "dupe_factor": 10,
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
        "strict_utf8": False,
        "masked_spans": "none",
        "dynamic_masking": False,
        "sentence_task": "next_sentence",
        "num_workers": 1,
        "num_shards": 1,
        "compression": "none",
        "work_dir": None,
    }


@pytest.fixture
def arguments(tmp_path, letters_vocab_file):
    """A valid command line for a small text."""
    (tmp_path / "text.txt").write_text("ab c def\ngh i\njklm no\n\npq r\nstu\nvw x\n")
    return [
        PROGRAM,
        f"--input_file={tmp_path}/text.txt",
        f"--output_file={tmp_path}/out.tfrecord",
        f"--vocab_file={letters_vocab_file}",
        "--max_seq_length=16",
        "--max_predictions_per_seq=3",
    ]


def test_the_summary_is_returned_shown_and_stored(arguments, tmp_path, capsys):
    summary = main([*arguments, "--dupe_factor=7", "--do_whole_word_mask"])
    metadata = read_metadata(str(tmp_path / "out.tfrecord"))
    assert metadata["summary"] == summary
    assert metadata["settings"]["dupe_factor"] == 7
    assert metadata["settings"]["do_whole_word_mask"] is True
    assert metadata["num_examples"] == summary["instances"] == len(examples_of(tmp_path / "out.tfrecord"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"input: {tmp_path}/text.txt"
    assert lines[-1] == f"wrote {tmp_path}/out.tfrecord"
    table = {name.strip(): value.strip() for name, _, value in (line.partition("│") for line in lines) if value}
    assert table == {
        "documents": "2",
        "sentences": "6",
        "tokens": "24",
        "instances": str(summary["instances"]),
        "random next, of the instances": f"{100 * summary['random_next_share']:.2f} %",
        "masked, of the tokens that are not padding": f"{100 * summary['masked_share']:.2f} %",
        "padding, of all positions": f"{100 * summary['padding_share']:.2f} %",
        "unknown ([UNK]), of the text's tokens": "0.00 %",
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("--input_file=none*", '--input_file: "none*" matches no file'),
        ("--output_file=text.txt", 'the output file "text.txt" is the input "'),
        ("--output_file=letters.vocab", 'the output file "letters.vocab" is the vocabulary file "'),
        ("--output_file=a,b,a", 'the output file "a" is given twice; the outputs need different names'),
        ("--output_file=a,", "an output file has no name; give at least one, and remove extra commas"),
        ("--output_file=text.txt/a", 'text.txt" is not a folder'),
        ("--vocab_file=none", 'there is no vocabulary file "none"'),
        ("--vocab_file=text.txt", "the vocabulary of 7 tokens lacks [UNK], [CLS], [SEP], [MASK]; pre-training"),
        ("--max_seq_length=4", "--max_seq_length=4 is too short"),
        ("--max_predictions_per_seq=17", "--max_predictions_per_seq=17 is not valid with --max_seq_length=16"),
        ("--masked_lm_prob=1.5", "--masked_lm_prob=1.5 is not a valid probability"),
        ("--num_workers=0", "--num_workers=0 is not a valid number of processes; give 1 or more"),
        ("--num_shards=0", "--num_shards=0 is not a valid number of files; give 1 or more"),
        ("--output_file=a,b --num_shards=3", "--output_file names 2 files, but --num_shards=3 needs one name"),
        ("--output_file=a,b.gz", "--output_file names compressed files (.gz) and others; give all of them the same"),
        ("--output_file=a.gz --compression=none", "--compression=none contradicts the name a.gz; leave out --compre"),
        ("--work_dir=gs://bucket/a", "--work_dir=gs://bucket/a is remote; give a local folder"),
        ("--masked_spans=ngram --do_whole_word_mask", "--masked_spans=ngram always masks whole words; leave out"),
        ("--dupe_factor=0", "--dupe_factor=0 makes no examples"),
        ("--dup_factor=3", "Unknown command line flag 'dup_factor'"),
        ("text.txt", '"text.txt" is not a flag'),
    ],
)
def test_mistakes_are_told_in_one_sentence_and_leave_nothing_behind(
    arguments, change, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*arguments, *change.split()])
    with pytest.raises(SystemExit) as ending:
        run()
    assert ending.value.code == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"{PROGRAM}: ")
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == ["letters.vocab", "text.txt"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("train-v1.0.tfrecord", "train-v1.0-00000-of-00002.tfrecord"),
        ("train-v1.0", "train-v1.0-00000-of-00002"),
        ("a.b/train.tfrecord.gz", "a.b/train-00000-of-00002.tfrecord.gz"),
        ("train", "train-00000-of-00002"),
    ],
)
def test_the_number_of_a_shard_comes_before_the_ending(arguments, tmp_path, name, first):
    main([*arguments, f"--output_file={tmp_path}/{name}", "--num_shards=2"])
    assert (tmp_path / first).is_file()


def test_the_folder_of_the_vocabulary_decides_how_text_is_prepared(arguments, tmp_path, capsys):
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"do_lower_case": false, "strip_accents": null}')
    main(arguments)
    assert read_metadata(f"{tmp_path}/out.tfrecord")["do_lower_case"] is False
    assert "--do_lower_case=False (set in the tokenizer_config.json next to" in capsys.readouterr().out
    main([*arguments, "--do_lower_case=True", "--strip_accents=False"])
    metadata = read_metadata(f"{tmp_path}/out.tfrecord")
    assert (metadata["do_lower_case"], metadata["strip_accents"]) == (True, False)
    assert metadata["settings"]["strip_accents"] is False
    assert "next to" not in capsys.readouterr().out
    config.write_text('{"do_lower_case": "no"}')
    with pytest.raises(ValueError, match="tokenizer_config.json: do_lower_case is 'no', but must be true or false"):
        main(arguments)


@pytest.mark.parametrize(("flag", "words"), [([], "c a f e"), (["--strip_accents=False"], "[UNK]")])
def test_accents_can_be_kept(arguments, tmp_path, flag, words, capsys):
    (tmp_path / "text.txt").write_text("caf\u00e9\n" * 8, encoding="utf-8")
    main([*arguments, *flag, "--masked_lm_prob=0"])
    assert read_metadata(f"{tmp_path}/out.tfrecord")["summary"]["unknown_share"] == (1 if flag else 0)


def test_what_will_be_replaced_is_told_at_the_start(arguments, tmp_path, capsys):
    main(arguments)
    assert "exists;" not in capsys.readouterr().out
    main(arguments)
    output = capsys.readouterr().out
    told = f"warning: {tmp_path}/out.tfrecord exists; the new records replace existing files when they are complete"
    assert output.index(told) < output.index("read 2 documents")


def test_many_files_need_few_open_ones(arguments, tmp_path):
    """Writes 300 record files in a process that may have 64 files open."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        "from bert_keras.data_prep.create_pretraining_data import main; main(sys.argv)"
    )
    for num_workers in (1, 2):
        folder = tmp_path / str(num_workers)
        flags = [*arguments[1:], f"--output_file={folder}/out", "--num_shards=300", f"--num_workers={num_workers}"]
        result = subprocess.run([sys.executable, "-c", code, *flags], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert len(os.listdir(folder)) == 600


def test_local_files_are_built_without_tensorflow(arguments):
    code = (
        "import sys; from bert_keras.data_prep.create_pretraining_data import main; main(sys.argv); "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments[1:]], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def remote_text(arguments, tmp_path):
    """Copies the text and the vocabulary of `arguments` to an object store; returns the flags."""
    for source, target in (("text.txt", "ram://in/text-1.txt"), ("letters.vocab", "ram://in/vocab.txt")):
        paths.make_dirs("ram://in")
        paths.copy(str(tmp_path / source), target)
    yield ["--input_file=ram://in/text-*.txt", "--vocab_file=ram://in/vocab.txt"]
    for folder in ("ram://in", "ram://out"):
        paths.remove_dir(folder)


@pytest.mark.parametrize("start_workers", [None, ThisProcess])
def test_text_vocabulary_and_records_may_be_remote(arguments, remote_text, tmp_path, monkeypatch, start_workers):
    def build_to(*flags):
        values = define_flags()
        values([*arguments, *flags])
        return build(values, 1, start_workers)

    build_to()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    before = sorted(os.listdir(tmp_path))
    build_to(*remote_text, "--output_file=ram://out/new/x.tfrecord", "--num_shards=2")
    expected = build_to(
        *remote_text, f"--output_file={tmp_path}/x.tfrecord", f"--work_dir={tmp_path}/work", "--num_shards=2"
    )
    for number in range(2):
        name = f"x-{number:05}-of-00002.tfrecord"
        assert paths.read_bytes(f"ram://out/new/{name}") == (tmp_path / name).read_bytes()
        metadata = read_metadata(f"ram://out/new/{name}")
        assert metadata["summary"] == expected
        assert metadata["num_bytes"] == paths.size(f"ram://out/new/{name}")
        (tmp_path / name).unlink()
        (tmp_path / f"{name}.json").unlink()
    assert os.listdir(tmp_path / "temporary") == os.listdir(tmp_path / "work") == []
    (tmp_path / "work").rmdir()
    assert sorted(os.listdir(tmp_path)) == before
    with pytest.raises(FileNotFoundError, match='--input_file: "ram://in/none\\*" matches no file$'):
        build_to("--input_file=ram://in/none*")


def test_all_missing_flags_are_named_at_once():
    with pytest.raises(ValueError, match="missing: --input_file, --vocab_file "):
        main([PROGRAM, "--output_file=x"])


def test_help_lists_the_flags(capsys):
    with pytest.raises(SystemExit):
        main([PROGRAM, "--help"])
    text = capsys.readouterr().out
    assert all(f"--{name}" in text or f"--[no]{name}" in text for name in define_flags())


def test_a_terminal_gets_bars(arguments, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(arguments)
    output = capsys.readouterr().out
    assert all(what in output for what in ("reading", "building instances", "writing"))


@pytest.mark.parametrize(
    "way", [["data_prep/create_pretraining_data.py"], ["-m", "bert_keras.data_prep.create_pretraining_data"]]
)
def test_it_runs_from_the_root_of_the_project_without_installation(way):
    command = [sys.executable, *way, "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "--input_file" in result.stdout
