"""Building with several processes: one result for every number of them, whatever was interrupted on the way."""

import os
import random

import pytest

from data_prep import building
from data_prep.building import BuildingTools, draw_document
from data_prep.documents import Documents, read_documents
from data_prep.instances import PretrainingDataSettings
from data_prep.masking import MaskingVocabulary
from data_prep.pretraining import build_pretraining_data
from data_prep.pretraining_records import open_records
from data_prep.records import read_metadata
from data_prep.workers import Workers
from tests.data_prep.tiny_data import examples_of

SETTINGS = PretrainingDataSettings(16, 4, dupe_factor=2, random_seed=8)


@pytest.fixture
def text(tmp_path, monkeypatch):
    """A text of 60 documents, of which a task takes a few."""
    monkeypatch.setattr(building, "_FEWEST_TOKENS", 300)
    rng = random.Random(0)
    with open(tmp_path / "text.txt", "w") as file:
        for _ in range(60):
            for _ in range(rng.randint(1, 8)):
                file.write("".join(rng.choices("abcdefghi ", k=rng.randint(1, 12))) + "x\n")
            file.write("\n")
    return str(tmp_path / "text.txt")


def build(text, tokenizer, folder, names, num_workers, settings=SETTINGS, **options):
    outputs = [str(folder / name) for name in names]
    return build_pretraining_data([text], outputs, tokenizer, settings, num_workers=num_workers, **options)


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_files_are_the_same_for_every_number_of_workers(text, letters_tokenizer, tmp_path):
    folder, found = tmp_path / "out", {}
    for num_workers in (2, 3):
        summary = build(text, letters_tokenizer, folder, ["a", "b"], num_workers)
        found[num_workers] = bytes_of(folder)
    assert sorted(found[2]) == ["a", "a.json", "b", "b.json"]
    assert found[2] == found[3]
    examples = {name: examples_of(folder / name) for name in ("a", "b")}
    counts = [len(examples[name]) for name in ("a", "b")]
    assert [read_metadata(str(folder / name))["num_examples"] for name in ("a", "b")] == counts
    assert sum(counts) == summary["instances"] > 100
    # Each record falls to one of the files by the toss of a coin.
    assert abs(counts[0] - counts[1]) < 4 * sum(counts) ** 0.5
    assert summary["random_next_share"] * sum(counts) == pytest.approx(
        sum(example["next_sentence_labels"][0] for name in "ab" for example in examples[name])
    )


def test_examples_are_those_of_each_document_in_a_new_order(text, letters_tokenizer, tmp_path):
    build(text, letters_tokenizer, tmp_path, ["out"], 2)
    documents = read_documents([text], letters_tokenizer)
    tools = BuildingTools(letters_tokenizer, MaskingVocabulary.from_vocab(letters_tokenizer.vocab), SETTINGS)
    drawn = [
        pair
        for number_of_pass in range(2)
        for index in range(len(documents))
        for pair in draw_document(documents, index, number_of_pass, tools)
    ]
    expected = [instance.features(SETTINGS) for _, instance in sorted(drawn, key=lambda pair: pair[0])]
    assert [dict(sorted(example.items())) for example in examples_of(tmp_path / "out")] == [
        dict(sorted(features.items())) for features in expected
    ]


def test_random_next_sentences_come_from_the_whole_corpus():
    vocab = {name: number for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    vocab.update({f"w{number}": number for number in range(5, 505)})
    documents = Documents(len(vocab))
    for token in range(5, 505):
        documents.add_sentence([token])
        documents.end_document()
    settings = PretrainingDataSettings(8, 1)

    tools = BuildingTools(None, MaskingVocabulary.from_vocab(vocab), settings)
    seconds = []
    for number_of_pass in range(400):
        [(_, instance)] = draw_document(documents, 7, number_of_pass, tools)
        assert instance.is_random_next
        tokens = dict(enumerate(instance.tokens)) | dict(
            zip(instance.masked_lm_positions, instance.masked_lm_ids, strict=True)
        )
        seconds.append(tokens[instance.first_length])
    assert min(seconds) < 30
    assert max(seconds) > 480
    assert sum(seconds) / 400 == pytest.approx(254, abs=25)


def test_a_build_goes_on_where_it_was_killed(text, letters_tokenizer, tmp_path, monkeypatch, messages):
    """Whichever task it was killed at, nothing that was finished is done again, and the files are the same."""
    expected_dir = tmp_path / "at once"
    build(text, letters_tokenizer, expected_dir, ["a", "b"], 2)
    expected = {name: (expected_dir / name).read_bytes() for name in ("a", "b")}
    run, stop, done = Workers.run, [], []

    def run_and_stop(self, function, folder, tasks):
        finished = {name for name in tasks if folder.result(name)}
        for name, result in run(self, function, folder, tasks):
            if name not in finished:
                done.append(name)
                if name.startswith(stop[0]):
                    raise KeyboardInterrupt
            yield name, result

    monkeypatch.setattr(Workers, "run", run_and_stop)
    folder = tmp_path / "out"
    for kind in ("text", "examples", "examples", "shard"):
        stop[:] = [kind]
        with pytest.raises(KeyboardInterrupt):
            build(text, letters_tokenizer, folder, ["a", "b"], 2)
        assert not any((folder / name).exists() for name in ("a", "b"))
        assert messages[-1].startswith(f"what is finished is kept in {folder}/.a.")
    stop[:] = ["nothing"]
    build(text, letters_tokenizer, folder, ["a", "b"], 3)
    assert {name: (folder / name).read_bytes() for name in ("a", "b")} == expected
    assert sorted(path.name for path in folder.iterdir()) == ["a", "a.json", "b", "b.json"]
    assert len(done) == len(set(done))
    assert sum(message.startswith("going on with what is finished") for message in messages) == 4


def test_other_settings_start_anew_and_tell_what_is_left(text, letters_tokenizer, tmp_path, monkeypatch, messages):
    folder = tmp_path / "out"

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(building, "publish", fail)
    with pytest.raises(OSError, match=f'cannot write in "{folder}": No space left on device; it needs room there'):
        build(text, letters_tokenizer, folder, ["a"], 2)
    monkeypatch.undo()
    [left] = [path for path in folder.iterdir() if path.suffix == ".unfinished"]
    build(text, letters_tokenizer, folder, ["a"], 2, PretrainingDataSettings(16, 4, dupe_factor=1))
    assert f"{left}: left by a build of other text or settings; delete it if it is not wanted" in messages
    assert left.exists()


def test_mistakes_leave_nothing_behind(tmp_path, letters_tokenizer):
    (tmp_path / "blank").write_bytes(b"\n\n")
    with pytest.raises(
        ValueError, match="a generator .rng. is for one worker; several draw from streams made from rand"
    ):
        build(str(tmp_path / "blank"), letters_tokenizer, tmp_path / "new", ["a"], 2, rng=random.Random(0))
    (tmp_path / "odd").write_bytes(b"a\n\xff\n")
    for name, sentence in (
        ("blank", "no document was found in .*blank"),
        ("odd", "odd line 2: byte 0xff is not valid"),
    ):
        with pytest.raises(ValueError, match=sentence):
            build(
                str(tmp_path / name),
                letters_tokenizer,
                tmp_path / "new",
                ["a"],
                2,
                PretrainingDataSettings(16, 4, strict_utf8=True),
            )
    assert sorted(os.listdir(tmp_path)) == ["blank", "letters.vocab", "odd"]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_text_without_any_order_makes_no_examples_of_it(tmp_path, letters_tokenizer, num_workers):
    (tmp_path / "text").write_text("a\n\nb\n")
    settings = PretrainingDataSettings(16, 4, sentence_task="sentence_order")
    with pytest.raises(ValueError, match="no example can be made of this text: its documents have one token each"):
        build(str(tmp_path / "text"), letters_tokenizer, tmp_path / "new", ["a"], num_workers, settings)
    assert sorted(os.listdir(tmp_path)) == ["letters.vocab", "text"]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_compressed_records_are_read_and_counted(text, letters_tokenizer, tmp_path, num_workers):
    from data_prep.pipeline import evaluation_batches, training_batches

    build(text, letters_tokenizer, tmp_path, ["plain"], num_workers)
    build(text, letters_tokenizer, tmp_path, ["small.gz"], num_workers, is_gzip=True)
    assert (tmp_path / "small.gz").stat().st_size < (tmp_path / "plain").stat().st_size / 3
    plain, small = (open_records(str(tmp_path / name), 16, 4, 57) for name in ("plain", "small.gz"))
    both = open_records(f"{tmp_path}/plain,{tmp_path}/small.gz", 16, 4, 57)
    assert plain.num_examples == small.num_examples
    assert both.compression_types == ["", "GZIP"]
    for make in (evaluation_batches, lambda records, size: training_batches(records, size, seed=3).take(9)):
        one, other = ([batch["input_ids"].numpy().tolist() for batch in make(file, 8)] for file in (plain, small))
        assert one == other
    assert sum(1 for _ in evaluation_batches(both, 1)) == 2 * plain.total_examples
    (tmp_path / "small.gz.json").unlink()
    assert open_records(str(tmp_path / "small.gz"), 16, 4, 57).num_examples == plain.num_examples
    content = (tmp_path / "small.gz").read_bytes()
    (tmp_path / "small.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="small.gz is not a whole TFRecord file: it ends or is damaged in example"):
        open_records(str(tmp_path / "small.gz"), 16, 4, 57)
