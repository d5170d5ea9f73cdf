"""Name-based checkpoints: finding, reading, loading, writing, and their errors."""

import os
import re
import resource
import uuid

import keras
import numpy as np
import pytest
import tensorflow as tf
from states import assert_bit_equal, weights_of
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
from bert_keras.modeling.checkpoints.loading import entries_of_other_heads
from bert_keras.modeling.checkpoints.tensorflow_format import find_damage
from bert_keras.storage import paths

DATA, INDEX = ".data-00000-of-00001", ".index"
CONFIG = make_config(num_hidden_layers=1)
ONE = {"x": np.float32(1)}


def refused(message, error=ValueError):
    return pytest.raises(error, match=re.escape(message))


@pytest.fixture(scope="module")
def model():
    """A model of one layer with 30 weights, which no test changes."""
    return make_model(CONFIG, seed=1)


@pytest.fixture
def prefix(tmp_path, model):
    """A checkpoint of the model, `bert_model.ckpt`."""
    return save_checkpoint(tmp_path / "bert_model.ckpt", weights_by_name(model))


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
        with refused(f"{prefix} has no entry x; its 4 entries are in `names`"):
            checkpoint.read("x")

    def test_tensorflow_1_loads_it_by_name(self, prefix, model):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            weight = tf.compat.v1.get_variable(
                "bert/pooler/dense/kernel", initializer=tf.zeros((8, 8)), use_resource=False
            )
            tf.compat.v1.train.Saver([weight]).restore(session, prefix)
            read = session.run(weight)
        np.testing.assert_array_equal(read, weights_of(model)["bert/pooler/dense/kernel"])

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
            save_checkpoint(tmp_path / "model.ckpt", ONE)
        # A checkpoint without an index does not count.
        assert os.listdir(tmp_path) == (["model.ckpt" + DATA] if failing == "second rename" else [])

    def test_an_older_checkpoint_of_that_name_is_replaced(self, tmp_path):
        save_checkpoint(tmp_path / "model.ckpt", {"x": np.zeros(5, np.float32)})
        save_checkpoint(tmp_path / "model.ckpt", {"y": np.ones(3, np.float32)})
        checkpoint = open_checkpoint(tmp_path / "model.ckpt")
        assert checkpoint.names == ["y"]
        np.testing.assert_array_equal(checkpoint.read("y"), [1, 1, 1])

    def test_a_full_disk_is_named(self, tmp_path, model):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(OSError, match=r"the checkpoint .*/model.ckpt cannot be written \(.*File too large\)$"):
                save_checkpoint(tmp_path / "model.ckpt", {"x": np.zeros(1000, np.float32)})
            with pytest.raises(OSError, match="File too large: '.*/model.safetensors'$"):
                save_safetensors(tmp_path, weights_by_name(model), CONFIG)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert os.listdir(tmp_path) == []


class TestRemote:
    """Paths of an object store, simulated by `ram://`."""

    def test_a_checkpoint_is_written_and_opened(self):
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
        CONFIG.to_json_file(f"{folder}/bert_config.json")
        paths.copy(__file__, f"{folder}/vocab.txt")
        assert open_checkpoint(folder).config == CONFIG
        assert open_checkpoint(folder).vocab_file == f"{folder}/vocab.txt"

    def test_errors_have_the_whole_address(self):
        folder = f"ram://{uuid.uuid4().hex}"
        with refused(
            f"{folder} is remote, and a safetensors checkpoint is read and written on a local disk only; copy"
        ):
            save_safetensors(folder, {}, CONFIG)
        paths.make_dirs(folder)
        with refused(f"the folder {folder} has no checkpoint; {folder} is empty", FileNotFoundError):
            open_checkpoint(folder)
        with refused(f"the checkpoint {folder}/a.ckpt (no {folder}/a.ckpt.index) does not exist; ", FileNotFoundError):
            open_checkpoint(f"{folder}/a.ckpt")
        paths.copy(__file__, f"{folder}/model.safetensors")
        with refused(f"{folder}/model.safetensors is remote, "):
            open_checkpoint(folder)


class TestFinding:
    def test_the_prefix_or_any_of_its_files_or_the_folder_will_do(self, tmp_path):
        prefix = save_checkpoint(tmp_path / "a.ckpt", ONE)
        for path in (prefix, prefix + INDEX, prefix + DATA, prefix + ".meta", tmp_path):
            assert open_checkpoint(path).prefix == prefix

    @pytest.mark.parametrize("folder_in_state", ["", "/moved/since/"])
    def test_the_state_file_of_a_folder_chooses(self, tmp_path, folder_in_state):
        for step in (10, 20, 30):
            save_checkpoint(tmp_path / f"model.ckpt-{step}", {"x": np.float32(step)})
        with refused(f"the folder {tmp_path} holds several checkpoints: model.ckpt-10, model.ckpt-20, model.ckpt-30; "):
            open_checkpoint(tmp_path)
        (tmp_path / "checkpoint").write_text(
            f'model_checkpoint_path: "{folder_in_state}model.ckpt-20"\n'
            f'all_model_checkpoint_paths: "{folder_in_state}model.ckpt-10"\n'
        )
        assert open_checkpoint(tmp_path).read("x") == 20

    def test_a_state_file_that_names_a_missing_checkpoint(self, tmp_path, messages):
        # Invalid bytes from another program must not fail.
        (tmp_path / "checkpoint").write_bytes(b'model_checkpoint_path: "/\xff/model.ckpt-30"\n')
        stale = "its file checkpoint names model.ckpt-30, which does not exist"
        with refused(
            f"the folder {tmp_path} has no checkpoint; {stale}; {tmp_path} holds checkpoint", FileNotFoundError
        ):
            open_checkpoint(tmp_path)
        prefix = save_checkpoint(tmp_path / "a.ckpt", ONE)
        assert open_checkpoint(tmp_path).prefix == prefix
        assert messages == [f"{tmp_path}: {stale}; taking a.ckpt"]
        save_checkpoint(tmp_path / "model.ckpt-20", ONE)
        with refused(f"the folder {tmp_path} holds several checkpoints: a.ckpt, model.ckpt-20, and {stale}; name one"):
            open_checkpoint(tmp_path)

    def test_a_bracket_in_the_path_is_refused(self, tmp_path):
        prefix = save_checkpoint(tmp_path / "a[1].ckpt", ONE)
        with refused("TensorFlow takes the bracket in this path for a pattern; rename the file"):
            open_checkpoint(prefix)

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("b.ckpt", "the checkpoint {0}/b.ckpt (no {0}/b.ckpt.index) does not exist; "
             "the checkpoints in {0} are a.ckpt"),
            ("other/model.ckpt", "the checkpoint {0}/other/model.ckpt (no {0}/other/model.ckpt.index) does not exist; "
             "the folder {0}/other does not exist"),
            ("texts", "the folder {0}/texts has no checkpoint; {0}/texts holds vocab.txt"),
            ("texts/bert", "the checkpoint {0}/texts/bert (no {0}/texts/bert.index) does not exist; "
             "{0}/texts holds vocab.txt"),
            ("many", "{0}/many holds 00, 01, 02, 03, 04, 05, 06, 07, 08, 09 and 2 more"),
        ],
        ids=["misspelt", "no folder", "folder", "prefix", "many files"],
    )  # fmt: skip
    def test_a_missing_checkpoint_names_the_files_that_exist(self, tmp_path, path, message):
        (tmp_path / f"a.ckpt{INDEX}").touch()
        for name in ("texts/vocab.txt", *(f"many/{i:02d}" for i in range(12))):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        with refused(message.format(tmp_path), FileNotFoundError):
            open_checkpoint(tmp_path / path)

    def test_another_file_than_a_checkpoint_is_not_missing(self, tmp_path):
        (tmp_path / "model.zip").touch()
        with refused(f"{tmp_path}/model.zip is a file, but not a checkpoint; unpack an archive, and give the folder"):
            open_checkpoint(tmp_path / "model.zip")


class TestDamage:
    @pytest.mark.parametrize("damage", ["nothing", "cut data", "cut index", "empty index", "changed byte", "no data"])
    def test_damage_is_found_and_named(self, prefix, damage):
        before = weights_by_name(PretrainingModel(CONFIG))
        whole = paths.read_bytes(prefix + DATA)
        others = r", or use another checkpoint in .*: model\.ckpt-4, model\.ckpt-8$"
        for name in ("model.ckpt-4", "model.ckpt-8", ".model.ckpt-9.unfinished-1"):
            open(os.path.join(os.path.dirname(prefix), f"{name}{INDEX}"), "w").close()
        if damage == "nothing":
            assert find_damage(prefix) is None
            return
        error, message = {
            "cut data": (
                ValueError,
                r"bert/.* cannot be read \(.*\); the data file is cut short or damaged, get it ag",
            ),
            "changed byte": (ValueError, r"cannot be read \(.*Checksum does not match.*\); the data file is cut short"),
            "cut index": (ValueError, r"\.index cannot be read \(.*\); the file is damaged, get it again"),
            "empty index": (ValueError, r"\.index cannot be read \(.*\); the file is damaged, get it again"),
            "no data": (FileNotFoundError, rf"{prefix}\.index exists, but {prefix}{DATA} does not; copy both files"),
        }[damage]
        if damage == "no data":
            os.remove(prefix + DATA)
        elif damage == "changed byte":
            changed = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
            with open(prefix + DATA, "wb") as file:
                file.write(changed)
        else:
            length = {"cut data": len(whole) // 2, "cut index": 10, "empty index": 0}[damage]
            os.truncate(prefix + (DATA if damage == "cut data" else INDEX), length)
        with pytest.raises(error, match=f"{message}.*{others}"):
            load_weights(before, prefix)
        found = find_damage(prefix)
        assert "use another" not in found
        if "data" in damage:
            assert re.search(r"bert_model.ckpt.data-\* has [\d,]+ bytes, and [\d,]+ are needed", found)

    def test_a_checkpoint_of_the_original_is_whole(self, golden_dir):
        assert find_damage(str(golden_dir / "pretraining_a" / "trained" / "model.ckpt-30")) is None


class TestConfig:
    def test_a_config_that_gives_the_weights_another_meaning_is_refused(self, tmp_path):
        prefix = save_checkpoint(tmp_path / "a.ckpt", ONE)
        checkpoint = open_checkpoint(prefix)
        other = make_config(hidden_act="gelu_erf", layer_norm_eps=1e-6, num_attention_heads=4)
        check_config(other, checkpoint)  # the folder has no config
        CONFIG.to_json_file(tmp_path / "bert_config.json")
        checkpoint = open_checkpoint(prefix)
        check_config(CONFIG, checkpoint)
        # Ignores fields that do not affect the network, or that the shapes of the weights determine.
        check_config(make_config(hidden_dropout_prob=0.5, initializer_range=1.0, vocab_size=41), checkpoint)
        with refused(
            f"the given config does not match that of {prefix}: hidden_act is 'gelu_erf', not 'gelu'; layer_norm_eps "
            "is 1e-06, not 1e-12; num_attention_heads is 4, not 2; give the config in its folder, or"
        ):
            check_config(other, checkpoint)


class TestLoading:
    def test_all_weights_are_loaded(self, prefix, model):
        loaded = PretrainingModel(CONFIG)
        report = load_weights(weights_by_name(loaded), prefix)
        assert_bit_equal(weights_of(loaded), weights_of(model))
        assert str(report) == f"loaded 30 of 30 weights from {prefix}"
        assert (len(report.loaded), report.new, report.unused) == (30, [], [])

    def test_leftover_heads_are_refused_unless_ignored(self, prefix):
        bert = BertModel(CONFIG)
        before = weights_of(bert)
        message = f"{prefix} has 7 weights that the model lacks: cls/predictions/output_bias, cls/"
        with pytest.raises(ValueError, match=re.escape(message) + ".*; they belong to other heads, which convert_ch"):
            load_weights(weights_by_name(bert), prefix, ignored=["bert/*", "output_*"])
        assert_bit_equal(weights_of(bert), before)
        report = load_weights(weights_by_name(bert), prefix, ignored=HEAD_PATTERNS)
        assert str(report).startswith(f"loaded 23 of 23 weights from {prefix}; unused: cls/predictions/output_bias, ")
        assert len(report.unused) == 7
        assert load_weights(weights_by_name(bert), prefix, allow_partial=True) == report

    @pytest.mark.parametrize(
        ("entry", "for_encoder", "for_masked_lm"),
        [
            ("crf.transitions", True, True),
            ("cls.species.classifier.weight", True, True),
            ("classifier.dense.weight", True, True),
            ("species[0]/kernel", True, True),
            ("cls.predictions.decoder.weight", True, "BERT's masked-LM head uses the word embeddings instead"),
            ("generator_lm_head.weight", True, "BERT's masked-LM head uses the word embeddings instead"),
            ("bert/encoder/layer_0/attention/self/distance_embedding", "config", "config"),
            ("bert.encoder.layer.0.adapter.weight", "config", "config"),
            ("encoder.layer.0.gate.weight", "config", "config"),
            ("embeddings.visual.weight", "config", "config"),
            ("distilbert.transformer.layer.0.lora_A.weight", "config", "config"),
        ],
    )
    def test_entries_of_unknown_heads_may_stay_but_none_of_the_encoder(
        self, tmp_path, model, entry, for_encoder, for_masked_lm
    ):
        tensors = weights_by_name(model) | {entry: np.ones((3, 3), np.float32), f"{entry}/adam_m": np.float32(0)}
        checkpoint = open_checkpoint(save_checkpoint(tmp_path / "a.ckpt", tensors))
        masked_lm = {name: weight for name, weight in weights_by_name(model).items() if "seq_relationship" not in name}
        for weights, expected in ((weights_by_name(BertModel(CONFIG)), for_encoder), (masked_lm, for_masked_lm)):
            ignored = entries_of_other_heads(checkpoint, weights)
            if expected is True:
                assert entry in load_weights(weights, checkpoint, ignored=ignored).unused
            else:
                with pytest.raises(ValueError, match=f"has 1 weights that the model lacks: .*{expected}"):
                    load_weights(weights, checkpoint, ignored=ignored)

    def test_a_missing_weight_is_refused_unless_allowed(self, tmp_path):
        prefix = save_checkpoint(tmp_path / "encoder.ckpt", weights_by_name(BertModel(CONFIG)))
        loaded = make_model(CONFIG)
        before, weights = weights_of(loaded), weights_by_name(loaded)
        message = f"{prefix} lacks 7 of the model's 30 weights: cls/"
        with pytest.raises(ValueError, match=re.escape(message) + ".*; take a checkpoint that has them, or the config"):
            load_weights(weights, prefix)
        assert_bit_equal(weights_of(loaded), before)
        with refused("lacks 2 of the model's 30 weights: cls/seq_relationship/"):
            load_weights(weights, prefix, new_allowed=["cls/predictions/*"])
        assert len(load_weights(weights, prefix, new_allowed=["cls/*"]).new) == 7
        report = load_weights(weights, prefix, allow_partial=True)
        assert str(report).startswith(f"loaded 23 of 30 weights from {prefix}; new: cls/")
        assert sorted(report.new) == sorted(name for name in before if name.startswith("cls/"))
        assert_bit_equal(
            {name: weights_of(loaded)[name] for name in report.new}, {name: before[name] for name in report.new}
        )

    @pytest.mark.parametrize("allow_partial", [False, True])
    def test_weights_of_another_shape_or_type_are_refused(self, tmp_path, prefix, allow_partial):
        other = make_model(make_config(num_hidden_layers=1, max_position_embeddings=9, type_vocab_size=3))
        before = weights_of(other)
        with refused(
            f"{prefix} does not fit the config: "
            "bert/embeddings/token_type_embeddings is [2, 8] in the checkpoint and [3, 8] in the model; "
            "bert/embeddings/position_embeddings is [16, 8] in the checkpoint and [9, 8] in the model; "
            "take the config file that belongs to the checkpoint"
        ):
            load_weights(weights_by_name(other), prefix, allow_partial)
        name = list(before)[-1]
        tensors = {each: value + 1 for each, value in before.items()} | {name: before[name].astype(np.int8)}
        quantised = save_checkpoint(tmp_path / "quantised.ckpt", tensors)
        message = f"{quantised} cannot be loaded: {name} is int8, and a weight must be one of float64, float32, float16"
        with refused(message):
            load_weights(weights_by_name(other), quantised, allow_partial)
        assert_bit_equal(weights_of(other), before)

    @pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
    def test_other_precisions_become_float32(self, tmp_path, dtype):
        stored = tf.cast([1 / 3, 1e4], dtype)
        checkpoint = open_checkpoint(save_checkpoint(tmp_path / "a.ckpt", {"x": stored, "global_step": np.int64(7)}))
        assert (checkpoint.dtype("x"), checkpoint.read("x").dtype) == (dtype, np.float32)
        assert (checkpoint.dtype("global_step"), checkpoint.read("global_step").dtype) == ("int64", np.int64)
        weight = keras.Variable(np.zeros(2, np.float32))
        load_weights({"x": weight}, checkpoint)
        np.testing.assert_array_equal(weight, tf.cast(stored, "float32"))

    def test_checkpoints_of_something_else_are_refused(self, tmp_path):
        weights = weights_by_name(BertModel(CONFIG))
        prefix = save_checkpoint(tmp_path / "other.ckpt", {"resnet/kernel": np.float32(1), "global_step": np.int64(1)})
        for allow_partial in (False, True):
            with refused(f"{prefix} cannot be loaded: it has none of the model's weights"):
                load_weights(weights, prefix, allow_partial)
        prefix = tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "objects.ckpt"))
        with refused("cannot be loaded: it is an object-based checkpoint of TensorFlow 2,"):
            load_weights(weights, prefix)

    def test_two_weights_of_one_name_are_refused(self):
        class Two(keras.Model):
            def __init__(self):
                super().__init__(name="two")
                self.first, self.second = BertModel(CONFIG), BertModel(CONFIG)

        with refused("two has two weights with the same name; give its parts different names"):
            weights_by_name(Two())
