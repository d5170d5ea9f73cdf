"""Name-based checkpoints: finding, reading, loading, writing, and their errors."""

import os
import re
import resource
import uuid

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import make_config, make_model

from bert_keras.modeling import (
    HEAD_PATTERNS,
    BertModel,
    PretrainingModel,
    check_config,
    load_weights,
    open_checkpoint,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.tensorflow_format import find_damage
from bert_keras.storage import paths, writing

DATA, INDEX = ".data-00000-of-00001", ".index"


def values(model):
    return {name: np.asarray(weight).copy() for name, weight in weights_by_name(model).items()}


def assert_same(first, second):
    assert list(first) == list(second)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.fixture
def prefix(tmp_path):
    """A checkpoint of a tiny model, `bert_model.ckpt`."""
    return save_checkpoint(tmp_path / "bert_model.ckpt", weights_by_name(make_model(make_config(), seed=1)))


class TestWriting:
    def test_what_is_written_is_read_bit_by_bit(self, tmp_path):
        written = {
            "global_step": np.int64(30),
            "bert/pooler/dense/kernel": keras.Variable(np.full((2, 3), 1 / 3, np.float32)),
            "bert/pooler/dense/kernel/adam_m": tf.Variable([1e-38, -0.0, np.nan]),
            "half": tf.constant([1.5], tf.float16),
        }
        prefix = save_checkpoint(tmp_path / "new" / "model.ckpt-30", written)
        assert prefix == str(tmp_path / "new" / "model.ckpt-30")
        assert sorted(os.listdir(tmp_path / "new")) == ["model.ckpt-30" + DATA, "model.ckpt-30" + INDEX]
        checkpoint = open_checkpoint(prefix)
        assert checkpoint.names == sorted(written)
        assert checkpoint.shape("bert/pooler/dense/kernel") == (2, 3)
        assert checkpoint.shape("global_step") == ()
        for name, value in written.items():
            read = checkpoint.read(name)
            expected = np.asarray(value, dtype=np.float32 if name == "half" else None)
            assert (read.dtype, read.shape) == (expected.dtype, expected.shape)
            assert read.tobytes() == expected.tobytes()

    def test_tensorflow_1_loads_it_by_name(self, prefix):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            weight = tf.compat.v1.get_variable("bert/pooler/dense/kernel", (8, 8), use_resource=False)
            tf.compat.v1.train.Saver([weight]).restore(session, prefix)
            read = session.run(weight)
        np.testing.assert_array_equal(read, values(make_model(make_config(), seed=1))["bert/pooler/dense/kernel"])

    @pytest.mark.parametrize("failing", ["write", "first rename", "second rename"])
    def test_a_failure_leaves_no_file_under_the_final_name(self, tmp_path, monkeypatch, failing):
        renamed = []

        def replace(source, target):
            renamed.append(target)
            if failing == "first rename" or len(renamed) == 2:
                raise OSError("killed")
            os.rename(source, target)

        if failing == "write":
            monkeypatch.setattr(tf.raw_ops, "SaveV2", lambda **_: 1 / 0)
        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises((OSError, ZeroDivisionError)):
            save_checkpoint(tmp_path / "model.ckpt", {"x": np.float32(1)})
        # A checkpoint without an index does not count.
        assert os.listdir(tmp_path) == (["model.ckpt" + DATA] if failing == "second rename" else [])

    def test_an_older_checkpoint_of_that_name_is_replaced(self, tmp_path):
        save_checkpoint(tmp_path / "model.ckpt", {"x": np.zeros(5, np.float32)})
        save_checkpoint(tmp_path / "model.ckpt", {"y": np.ones(3, np.float32)})
        checkpoint = open_checkpoint(tmp_path / "model.ckpt")
        assert checkpoint.names == ["y"]
        np.testing.assert_array_equal(checkpoint.read("y"), [1, 1, 1])

    def test_a_disk_that_is_full_is_told(self, tmp_path):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(OSError, match=r"the checkpoint .*/model.ckpt cannot be written \(.*File too large\)$"):
                save_checkpoint(tmp_path / "model.ckpt", {"x": np.zeros(1000, np.float32)})
            with pytest.raises(OSError, match=r"/model.safetensors cannot be written \(.*File too large.*\)$"):
                save_safetensors(tmp_path, weights_by_name(make_model(make_config())), make_config())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert os.listdir(tmp_path) == []


class TestRemote:
    """Paths of an object store, simulated by `ram://`."""

    def test_a_checkpoint_is_written_and_opened(self, prefix):
        folder = f"ram://{uuid.uuid4().hex}/deep"
        for value in (0, 1):
            written = save_checkpoint(f"{folder}/model.ckpt-3", {"x": np.full(5, value, np.float32)})
        assert written == f"{folder}/model.ckpt-3"
        assert paths.list_dir(folder) == ["model.ckpt-3" + DATA, "model.ckpt-3" + INDEX]
        for path in (folder, written, written + INDEX, written + DATA):
            checkpoint = open_checkpoint(path)
            assert checkpoint.prefix == written
            np.testing.assert_array_equal(checkpoint.read("x"), np.ones(5))
        assert (checkpoint.config, checkpoint.vocab_file, checkpoint.labels) == (None, None, None)
        config = make_config()
        config.to_json_file(f"{folder}/bert_config.json")
        paths.copy(__file__, f"{folder}/vocab.txt")
        assert open_checkpoint(folder).config == config
        assert open_checkpoint(folder).vocab_file == f"{folder}/vocab.txt"

    def test_what_is_missing_is_told_with_the_whole_address(self):
        folder = f"ram://{uuid.uuid4().hex}"
        paths.make_dirs(folder)
        with pytest.raises(
            FileNotFoundError, match=rf"there is no checkpoint in the folder {folder}; {folder} is empty"
        ):
            open_checkpoint(folder)
        with pytest.raises(FileNotFoundError, match=rf"no checkpoint {folder}/a.ckpt \(no {folder}/a.ckpt.index\)"):
            open_checkpoint(f"{folder}/a.ckpt")

    def test_safetensors_are_for_a_local_disk(self):
        folder = f"ram://{uuid.uuid4().hex}"
        with pytest.raises(ValueError, match=f"^{folder} is remote, .*; copy the folder to this machine$"):
            save_safetensors(folder, {}, make_config())
        paths.make_dirs(folder)
        paths.copy(__file__, f"{folder}/model.safetensors")
        with pytest.raises(ValueError, match=f"^{folder}/model.safetensors is remote, "):
            open_checkpoint(folder)


class TestFinding:
    @pytest.mark.parametrize("suffix", ["", INDEX, DATA, ".meta"])
    def test_the_prefix_or_any_of_its_files_will_do(self, prefix, suffix):
        assert open_checkpoint(prefix + suffix).prefix == prefix

    def test_a_folder_of_one_will_do(self, prefix, tmp_path):
        assert open_checkpoint(tmp_path).prefix == prefix

    @pytest.mark.parametrize("folder_in_state", ["", "/moved/since/"])
    def test_the_state_file_of_a_folder_says_which(self, tmp_path, folder_in_state):
        for step in (10, 20, 30):
            save_checkpoint(tmp_path / f"model.ckpt-{step}", {"x": np.float32(step)})
        (tmp_path / "checkpoint").write_text(
            f'model_checkpoint_path: "{folder_in_state}model.ckpt-20"\n'
            f'all_model_checkpoint_paths: "{folder_in_state}model.ckpt-10"\n'
        )
        assert open_checkpoint(tmp_path).read("x") == 20

    def test_a_state_file_that_names_what_is_gone_is_told(self, prefix, tmp_path, messages):
        # Invalid bytes from another program must not fail.
        (tmp_path / "checkpoint").write_bytes(b'model_checkpoint_path: "/\xff/model.ckpt-30"\n')
        assert open_checkpoint(tmp_path).prefix == prefix
        sentence = f"{tmp_path}: its file checkpoint names model.ckpt-30, which does not exist; taking bert_model.ckpt"
        assert messages == [sentence]
        save_checkpoint(tmp_path / "model.ckpt-20", {"x": np.float32(1)})
        sentence = (
            f"the folder {tmp_path} holds several checkpoints: bert_model.ckpt, model.ckpt-20, and its file checkpoint "
            "names model.ckpt-30, which does not exist; name one"
        )
        with pytest.raises(ValueError, match=re.escape(sentence)):
            open_checkpoint(tmp_path)

    def test_a_state_file_alone_is_no_checkpoint(self, tmp_path):
        (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-30"\n')
        sentence = f"the folder {tmp_path}; its file checkpoint names model.ckpt-30, which does not exist; {tmp_path} "
        with pytest.raises(FileNotFoundError, match=re.escape(f"{sentence}holds checkpoint")):
            open_checkpoint(tmp_path)

    def test_several_in_a_folder_are_named(self, tmp_path):
        for step in (10, 20):
            save_checkpoint(tmp_path / f"model.ckpt-{step}", {"x": np.float32(step)})
        sentence = f"the folder {tmp_path} holds several checkpoints: model.ckpt-10, model.ckpt-20; name one"
        with pytest.raises(ValueError, match=re.escape(sentence)):
            open_checkpoint(tmp_path)

    def test_a_bracket_in_the_path_is_refused(self, tmp_path):
        prefix = save_checkpoint(tmp_path / "a[1].ckpt", {"x": np.float32(1)})
        with pytest.raises(
            ValueError, match="TensorFlow takes the bracket in this path for a pattern; rename the file"
        ):
            open_checkpoint(prefix)

    @pytest.mark.parametrize(
        ("path", "sentence"),
        [
            ("bert_model.cpkt", "there is no checkpoint {0}/bert_model.cpkt (no {0}/bert_model.cpkt.index); "
             "the checkpoints in {0} are bert_model.ckpt"),
            ("other/model.ckpt", "there is no checkpoint {0}/other/model.ckpt (no {0}/other/model.ckpt.index); "
             "there is no folder {0}/other"),
            ("texts", "there is no checkpoint in the folder {0}/texts; {0}/texts holds vocab.txt"),
            ("texts/bert", "there is no checkpoint {0}/texts/bert (no {0}/texts/bert.index); "
             "{0}/texts holds vocab.txt"),
            ("empty", "there is no checkpoint in the folder {0}/empty; {0}/empty is empty"),
            ("many", "{0}/many holds 00, 01, 02, 03, 04, 05, 06, 07, 08, 09 and 2 more"),
        ],
    )  # fmt: skip
    def test_a_missing_checkpoint_names_what_is_there(self, prefix, tmp_path, path, sentence):
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / "vocab.txt").touch()
        (tmp_path / "empty").mkdir()
        (tmp_path / "many").mkdir()
        for i in range(12):
            (tmp_path / "many" / f"{i:02d}").touch()
        with pytest.raises(FileNotFoundError, match=re.escape(sentence.format(tmp_path))):
            open_checkpoint(tmp_path / path)

    def test_a_missing_data_file_is_named(self, prefix):
        os.remove(prefix + DATA)
        with pytest.raises(FileNotFoundError, match=re.escape(f"{prefix}.index exists, but {prefix}{DATA} does not;")):
            open_checkpoint(prefix)


class TestDamage:
    def test_a_data_file_cut_short_is_refused(self, prefix):
        os.truncate(prefix + DATA, os.path.getsize(prefix + DATA) // 2)
        sentence = (
            r"bert_model\.ckpt: bert/.* cannot be read \(.*\); the data file is cut short or damaged, get it again"
        )
        with pytest.raises(ValueError, match=sentence):
            load_weights(weights_by_name(PretrainingModel(make_config())), prefix)

    def test_a_changed_byte_is_noticed(self, prefix):
        with open(prefix + DATA, "r+b") as data:
            data.seek(40)
            byte = data.read(1)
            data.seek(40)
            data.write(bytes([byte[0] ^ 1]))
        with pytest.raises(ValueError, match=r"cannot be read \(.*Checksum does not match.*\); the data file is cut"):
            load_weights(weights_by_name(PretrainingModel(make_config())), prefix)

    @pytest.mark.parametrize("share", [0.0, 0.5])
    def test_a_damaged_index_is_refused(self, prefix, share):
        os.truncate(prefix + INDEX, int(share * os.path.getsize(prefix + INDEX)))
        with pytest.raises(ValueError, match=r"\.index cannot be read \(.*\); the file is damaged, get it again"):
            open_checkpoint(prefix)

    def test_other_checkpoints_of_the_folder_are_named(self, prefix):
        others = r", or use another checkpoint in .*: model\.ckpt-4, model\.ckpt-8$"
        for name in ("model.ckpt-4", "model.ckpt-8", ".model.ckpt-9.unfinished-1"):
            open(os.path.join(os.path.dirname(prefix), f"{name}{INDEX}"), "w").close()
        os.truncate(prefix + DATA, os.path.getsize(prefix + DATA) // 2)
        with pytest.raises(ValueError, match=f"the data file is cut short or damaged, get it again{others}"):
            load_weights(weights_by_name(PretrainingModel(make_config())), prefix)
        assert "use another" not in find_damage(prefix)
        os.remove(prefix + DATA)
        with pytest.raises(FileNotFoundError, match=f"copy both files{others}"):
            open_checkpoint(prefix)

    @pytest.mark.parametrize("damage", ["nothing", "cut data", "cut index", "changed byte", "no data"])
    def test_damage_is_found(self, prefix, damage):
        if damage == "cut data":
            os.truncate(prefix + DATA, os.path.getsize(prefix + DATA) - 1)
        elif damage == "cut index":
            os.truncate(prefix + INDEX, 10)
        elif damage == "no data":
            os.remove(prefix + DATA)
        elif damage == "changed byte":
            content = bytearray(paths.read_bytes(prefix + DATA))
            content[40] ^= 1
            writing.write_bytes(prefix + DATA, content)
        assert (find_damage(prefix) is None) == (damage == "nothing")
        if "data" in damage:
            assert re.search(r"bert_model.ckpt.data-\* has [\d,]+ bytes, and [\d,]+ are needed", find_damage(prefix))

    def test_a_checkpoint_of_the_original_is_whole(self, golden_dir):
        assert find_damage(str(golden_dir / "pretraining_a" / "trained" / "model.ckpt-30")) is None

    def test_an_entry_that_is_not_there_is_refused(self, prefix):
        with pytest.raises(ValueError, match=re.escape(f"{prefix} has no entry x; its 46 entries are in `names`")):
            open_checkpoint(prefix).read("x")


class TestConfig:
    def test_a_config_that_gives_the_weights_another_meaning_is_refused(self, prefix, tmp_path):
        checkpoint = open_checkpoint(prefix)
        config = make_config()
        other = make_config(hidden_act="gelu_erf", layer_norm_eps=1e-6, num_attention_heads=4)
        check_config(other, checkpoint)  # the folder has no config
        config.to_json_file(tmp_path / "bert_config.json")
        check_config(config, checkpoint)
        # Ignores fields that do not affect the network, or that the shapes of the weights determine.
        check_config(make_config(hidden_dropout_prob=0.5, initializer_range=1.0, vocab_size=41), checkpoint)
        sentence = (
            f"the given config does not match that of {prefix}: hidden_act is 'gelu_erf', not 'gelu'; layer_norm_eps "
            "is 1e-06, not 1e-12; num_attention_heads is 4, not 2; give the config in its folder, or"
        )
        with pytest.raises(ValueError, match=re.escape(sentence)):
            check_config(other, checkpoint)

    def test_gelu_of_the_other_layout_is_another_function(self, tmp_path):
        config = make_config(hidden_act="gelu_erf")
        checkpoint = open_checkpoint(save_safetensors(tmp_path, weights_by_name(make_model(config)), config))
        check_config(config, checkpoint)
        with pytest.raises(ValueError, match=": hidden_act is 'gelu', not 'gelu_erf'; give the config in its folder,"):
            check_config(make_config(), checkpoint)


class TestLoading:
    def test_all_weights_are_loaded(self, prefix):
        model = PretrainingModel(make_config())
        report = load_weights(weights_by_name(model), prefix)
        assert_same(values(model), values(make_model(make_config(), seed=1)))
        assert str(report) == f"loaded 46 of 46 weights from {prefix}"
        assert (len(report.loaded), report.new, report.unused) == (46, [], [])

    def test_what_training_added_is_passed_over(self, golden_dir):
        model = PretrainingModel(make_config(**GOLDEN_A))
        report = load_weights(weights_by_name(model), golden_dir / "pretraining_a" / "trained")
        assert (len(report.loaded), report.unused) == (46, [])

    def test_heads_left_over_are_refused_unless_ignored(self, prefix):
        model = BertModel(make_config())
        before = values(model)
        sentence = f"{prefix} has 7 weights that the model lacks: cls/predictions/output_bias, cls/"
        with pytest.raises(ValueError, match=re.escape(sentence) + ".*; take the config file that belongs to the"):
            load_weights(weights_by_name(model), prefix, ignored=["bert/*", "output_*"])
        assert_same(values(model), before)
        report = load_weights(weights_by_name(model), prefix, ignored=HEAD_PATTERNS)
        assert str(report).startswith(f"loaded 39 of 39 weights from {prefix}; unused: cls/predictions/output_bias, ")
        assert len(report.unused) == 7

    def test_a_missing_weight_is_refused_unless_allowed(self, tmp_path):
        prefix = save_checkpoint(tmp_path / "encoder.ckpt", weights_by_name(BertModel(make_config())))
        model = make_model(make_config())
        before = values(model)
        sentence = f"{prefix} lacks 7 of the model's 46 weights: cls/"
        with pytest.raises(
            ValueError, match=re.escape(sentence) + ".*; take a checkpoint that has them, or the config"
        ):
            load_weights(weights_by_name(model), prefix)
        assert_same(values(model), before)
        with pytest.raises(ValueError, match="lacks 2 of the model's 46 weights: cls/seq_relationship/"):
            load_weights(weights_by_name(model), prefix, new_allowed=["cls/predictions/*"])
        assert len(load_weights(weights_by_name(model), prefix, new_allowed=["cls/*"]).new) == 7
        report = load_weights(weights_by_name(model), prefix, allow_partial=True)
        assert str(report).startswith(f"loaded 39 of 46 weights from {prefix}; new: cls/")
        assert sorted(report.new) == sorted(name for name in before if name.startswith("cls/"))
        after = values(model)
        assert_same({name: after[name] for name in report.new}, {name: before[name] for name in report.new})

    def test_encoder_layers_left_over_are_refused_unless_allowed(self, prefix):
        model = PretrainingModel(make_config(num_hidden_layers=1))
        with pytest.raises(
            ValueError,
            match=r"has 16 weights that the model lacks: bert/encoder/layer_1/.*; take the config file .* checkpoint$",
        ):
            load_weights(weights_by_name(model), prefix)
        assert len(load_weights(weights_by_name(model), prefix, allow_partial=True).unused) == 16

    @pytest.mark.parametrize("allow_partial", [False, True])
    def test_every_weight_of_another_shape_is_named(self, prefix, allow_partial):
        model = make_model(make_config(max_position_embeddings=9, type_vocab_size=3))
        before = values(model)
        sentence = (
            f"{prefix} does not fit the config: "
            "bert/embeddings/token_type_embeddings is [2, 8] in the checkpoint and [3, 8] in the model; "
            "bert/embeddings/position_embeddings is [16, 8] in the checkpoint and [9, 8] in the model; "
            "take the config file that belongs to the checkpoint"
        )
        with pytest.raises(ValueError, match=re.escape(sentence)):
            load_weights(weights_by_name(model), prefix, allow_partial)
        assert_same(values(model), before)

    @pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
    def test_other_precisions_become_float32(self, tmp_path, dtype):
        model, again = make_model(make_config(), seed=1), PretrainingModel(make_config())
        tensors = {name: tf.cast(weight.value, dtype) for name, weight in weights_by_name(model).items()}
        prefix = save_checkpoint(tmp_path / "other.ckpt", tensors | {"global_step": np.int64(7)})
        checkpoint = open_checkpoint(prefix)
        name = "bert/pooler/dense/kernel"
        assert (checkpoint.dtype(name), checkpoint.read(name).dtype) == (dtype, np.float32)
        assert (checkpoint.dtype("global_step"), checkpoint.read("global_step").dtype) == ("int64", np.int64)
        load_weights(weights_by_name(again), checkpoint)
        assert_same(values(again), {name: tf.cast(value, "float32").numpy() for name, value in tensors.items()})

    @pytest.mark.parametrize("allow_partial", [False, True])
    def test_a_weight_that_is_no_floating_number_is_refused(self, tmp_path, allow_partial):
        model = make_model(make_config())
        before = values(model)
        name = list(before)[-1]
        tensors = {other: value + 1 for other, value in before.items()} | {name: before[name].astype(np.int8)}
        prefix = save_checkpoint(tmp_path / "quantised.ckpt", tensors)
        sentence = f"{prefix} cannot be loaded: {name} is int8, and a weight must be one of float64, float32, float16,"
        with pytest.raises(ValueError, match=re.escape(sentence)):
            load_weights(weights_by_name(model), prefix, allow_partial)
        assert_same(values(model), before)

    @pytest.mark.parametrize("allow_partial", [False, True])
    def test_a_checkpoint_of_something_else_is_refused(self, tmp_path, allow_partial):
        prefix = save_checkpoint(tmp_path / "other.ckpt", {"resnet/kernel": np.float32(1), "global_step": np.int64(1)})
        with pytest.raises(
            ValueError, match=re.escape(f"{prefix} cannot be loaded: it has none of the model's weights")
        ):
            load_weights(weights_by_name(BertModel(make_config())), prefix, allow_partial)

    def test_a_checkpoint_of_objects_is_refused(self, tmp_path):
        prefix = tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "objects.ckpt"))
        with pytest.raises(ValueError, match="cannot be loaded: it is an object-based checkpoint of TensorFlow 2,"):
            load_weights(weights_by_name(BertModel(make_config())), prefix)

    def test_two_weights_of_one_name_are_refused(self):
        class Two(keras.Model):
            def __init__(self):
                super().__init__(name="two")
                self.first, self.second = BertModel(make_config()), BertModel(make_config())

        with pytest.raises(ValueError, match="two has two weights with the same name; give its parts different names"):
            weights_by_name(Two())


GOLDEN_A = {
    "vocab_size": 211,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 48,
}


def test_a_golden_checkpoint_is_written_back_equal(golden_dir, tmp_path):
    source = open_checkpoint(golden_dir / "pretraining_a" / "trained")
    written = open_checkpoint(
        save_checkpoint(tmp_path / "out.ckpt", {name: source.read(name) for name in source.names})
    )
    assert written.names == source.names
    for name in source.names:
        assert written.read(name).dtype == source.read(name).dtype
        np.testing.assert_array_equal(written.read(name), source.read(name))
