"""The command line: the original flags, the original examples, and one error message for each mistake."""

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from tiny_data import examples_of, parsed_examples_of

from bert_keras.cli.flags import run_main
from bert_keras.data_prep.corpus.workers import ThisProcess
from bert_keras.data_prep.create_pretraining_data import build, define_flags, main
from bert_keras.data_prep.pretraining.flags import name_outputs
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.storage import paths

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "create_pretraining_data.py"
TWO_INPUTS = (
    "--input_file=sample_text.txt,wiki_small.txt --max_seq_length=96 --max_predictions_per_seq=14 --random_seed=5 "
    "--dupe_factor=1 --do_lower_case=True"
)


@pytest.mark.parametrize(
    "name", ["sample_cased_short", "sample_default", "sample_wwm_seq64", "wiki_seq128", "two_inputs"]
)
def test_examples_are_those_of_the_original(name, shared_dir, tmp_path, monkeypatch):
    golden, vocab_file = shared_dir("golden/create_pretraining_data"), shared_dir("data/vocab/uncased.txt")
    monkeypatch.chdir(golden)
    if name == "two_inputs":
        flags, records = TWO_INPUTS, ["two_inputs_0.tfrecord", "two_inputs_1.tfrecord"]
    else:
        flags, records = (golden / f"{name}.tfrecord.flags").read_text(), [f"{name}.tfrecord"]
    outputs = ",".join(str(tmp_path / record) for record in records)
    main([PROGRAM, *flags.split(), f"--vocab_file={vocab_file}", f"--output_file={outputs}"])
    for record in records:
        ours, expected = parsed_examples_of(tmp_path / record), parsed_examples_of(golden / record)
        assert len(ours) == len(expected) > 0
        for number, pair in enumerate(zip(ours, expected, strict=True)):
            assert pair[0] == pair[1], f"example {number}"


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


def test_of_many_files_the_first_are_named(arguments, tmp_path, capsys):
    for number in range(12):
        (tmp_path / f"part_{number:02}.txt").write_text("one .\n\n")
    main([*arguments, f"--input_file={tmp_path}/part_*.txt"])
    names = ", ".join(f"{tmp_path}/part_{number:02}.txt" for number in range(10))
    assert capsys.readouterr().out.splitlines()[0] == f"input: {names} and 2 more files"


def test_summary_is_returned_shown_and_stored(arguments, tmp_path, capsys):
    summary = main([*arguments, "--dupe_factor=7", "--do_whole_word_mask"])
    metadata = read_metadata(str(tmp_path / "out.tfrecord"))
    assert metadata["summary"] == summary
    assert metadata["settings"]["dupe_factor"] == 7
    assert metadata["settings"]["do_whole_word_mask"] is True
    assert metadata["num_examples"] == summary["instances"] == len(examples_of(tmp_path / "out.tfrecord"))
    output = capsys.readouterr().out
    lines = output.splitlines()
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
    assert "exists;" not in output
    main([*arguments, "--sentence_task=none", "--dynamic_masking"])
    output = capsys.readouterr().out
    assert output.index("out.tfrecord exists; the new records replace") < output.index("read 2 documents")
    assert "random next" not in output
    assert "masked, of" not in output


def test_mistake_prints_one_line_and_writes_nothing(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_main(main, [*arguments, "--dup_factor=3"]) == 1
    assert run_main(main, [*arguments, "--output_file=text.txt/a"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{PROGRAM}: there is no flag --dup_factor")
    assert second.endswith("text.txt is a file; give another folder")
    assert sorted(os.listdir(tmp_path)) == ["letters.vocab", "text.txt"]


def test_the_program_runs_at_the_place_of_the_original(arguments, tmp_path):
    subprocess.run([sys.executable, ROOT / PROGRAM, *arguments[1:]], cwd=tmp_path, check=True)
    at_old_place = examples_of(tmp_path / "out.tfrecord")
    main(arguments)
    assert examples_of(tmp_path / "out.tfrecord") == at_old_place


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("--num_workers=0", "num_workers=0: 0 is not a whole number from 1"),
        ("--num_shards=0", "num_shards=0: 0 is not a whole number from 1"),
        ("--output_file=a,b --num_shards=3", "output_file names 2 files, but num_shards=3 needs one name"),
        ("--output_file=a,b.gz", 'the output "b.gz" is compressed .*, but "a" is not; give all outputs the same'),
        ("--output_file=a.gz --compression=none", "compression=none contradicts the name a.gz; leave out compre"),
        ("--work_dir=gs://bucket/a", "work_dir=gs://bucket/a is remote; give a local folder"),
        ("--vocab_file=", "flag --vocab_file=: it is empty; give a value, or leave it out"),
    ],
)
def test_flags_that_cannot_be_used(arguments, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        main([*arguments, *change.split()])


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("train-v1.0.tfrecord", "train-v1.0-00000-of-00002.tfrecord"),
        ("train-v1.0", "train-v1.0-00000-of-00002"),
        ("a.b/train.tfrecord.gz", "a.b/train-00000-of-00002.tfrecord.gz"),
        ("train", "train-00000-of-00002"),
    ],
)
def test_number_of_a_shard_comes_before_the_ending(name, first):
    values = define_flags()
    values([PROGRAM, f"--output_file={name}", "--num_shards=2"])
    assert name_outputs(values.output_file, values.num_shards) == [first, first.replace("-00000-", "-00001-")]


def test_folder_of_the_vocabulary_decides_the_casing(arguments, tmp_path, capsys):
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": null}')
    main(arguments)
    assert read_metadata(f"{tmp_path}/out.tfrecord")["do_lower_case"] is False
    assert f"--do_lower_case=False (set in {tmp_path}/tokenizer_config.json)" in capsys.readouterr().out
    (tmp_path / "tokenizer_config.json").unlink()
    main([*arguments, "--do_lower_case=True", "--strip_accents=False"])
    metadata = read_metadata(f"{tmp_path}/out.tfrecord")
    assert (metadata["do_lower_case"], metadata["strip_accents"]) == (True, False)
    assert metadata["settings"]["strip_accents"] is False
    assert "next to" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "flag", "name", "found"),
    [
        ('{"do_lower_case": false}', "--do_lower_case=True", "do_lower_case=True", "do_lower_case=False"),
        ('{"do_lower_case": true}', "--strip_accents=False", "strip_accents=False", "strip_accents=True"),
        ('{"strip_accents": false}', "--strip_accents", "strip_accents=True", "strip_accents=False"),
    ],
)
def test_casing_that_contradicts_the_folder_of_the_vocabulary_is_refused(
    arguments, tmp_path, content, flag, name, found
):
    (tmp_path / "tokenizer_config.json").write_text(content)
    message = f"^{name} was given, but {tmp_path}/tokenizer_config.json sets {found} for its vocabulary; leave it out"
    with pytest.raises(ValueError, match=message):
        main([*arguments, flag])
    assert not (tmp_path / "out.tfrecord").exists()


@pytest.mark.slow
def test_many_local_files_need_few_open_ones_and_no_tensorflow(arguments, tmp_path):
    """Writes 100 record files in a process that may have 64 files open."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        "from bert_keras.data_prep.create_pretraining_data import main; main(sys.argv); "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    for num_workers in (1, 2):
        folder = tmp_path / str(num_workers)
        flags = [*arguments[1:], f"--output_file={folder}/out", "--num_shards=100", f"--num_workers={num_workers}"]
        result = subprocess.run([sys.executable, "-c", code, *flags], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert len(os.listdir(folder)) == 200


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
        values([*arguments, *remote_text, *flags, "--num_shards=2"])
        return build(values, start_workers)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    before = sorted(os.listdir(tmp_path))
    build_to("--output_file=ram://out/new/x.tfrecord")
    assert sorted(os.listdir(tmp_path)) == before
    expected = build_to(f"--output_file={tmp_path}/x.tfrecord", f"--work_dir={tmp_path}/work")
    for number in range(2):
        name = f"x-{number:05}-of-00002.tfrecord"
        assert paths.read_bytes(f"ram://out/new/{name}") == (tmp_path / name).read_bytes()
        metadata = read_metadata(f"ram://out/new/{name}")
        assert metadata["summary"] == expected
        assert metadata["num_bytes"] == paths.size(f"ram://out/new/{name}")
    assert os.listdir(tmp_path / "temporary") == []
    assert not (tmp_path / "work").exists()  # it was made for this build
    with pytest.raises(FileNotFoundError, match='input_file: "ram://in/none\\*" matches no file$'):
        build_to("--input_file=ram://in/none*")


def test_terminal_gets_bars(arguments, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(arguments)
    output = capsys.readouterr().out
    assert all(what in output for what in ("reading", "building instances", "writing"))


@pytest.mark.parametrize(
    "way", [["data_prep/create_pretraining_data.py"], ["-m", "bert_keras.data_prep.create_pretraining_data"]]
)
def test_runs_without_installation_and_helps(way):
    command = [sys.executable, *way, "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    assert all(f"--{name}" in result.stdout or f"--[no]{name}" in result.stdout for name in define_flags())
