"""Pre-training of a model that reads left to right: its targets, its loss and exact resumption."""

import dataclasses

import numpy as np
import pytest
from pretraining_runs import TOKENS, WORDS, assert_continues, make_files, run, write_text
from reference_bert import ReferenceBert
from states import weights_in
from training_runs import assert_near

from bert_keras.data_prep.create_pretraining_data import main
from bert_keras.data_prep.records.reading import open_records
from bert_keras.engine.input.pretraining_batches import evaluation_batches, next_token_targets


@pytest.fixture
def flags(tmp_path, tiny_config, write_records):
    """The flags of a run of a few steps without dropout; `tiny_config` reads left to right."""
    changes = {"is_decoder": True, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    flags = make_files(tmp_path, dataclasses.replace(tiny_config, **changes), write_records)
    return flags | {"do_train": True, "do_eval": True, "num_train_steps": 4, "log_steps": 1, "learning_rate": 1e-3}


@pytest.mark.parametrize("kind", [(), ("--dynamic_masking",), ("--do_whole_word_mask", "--replace_prob=0")])
def test_the_tokens_of_the_text_are_the_targets(tmp_path, kind):
    write_text(tmp_path)
    arguments = ["--max_seq_length=24", "--max_predictions_per_seq=5", "--masked_lm_prob=0.3", "--dupe_factor=2"]
    arguments += [f"--vocab_file={tmp_path}/vocab.txt", f"--output_file={tmp_path}/a.tfrecord", *kind]
    main(["create_pretraining_data.py", f"--input_file={tmp_path}/text.txt", "--sentence_task=none", *arguments])
    batches = evaluation_batches(open_records(f"{tmp_path}/a.tfrecord", 24, 5, len(TOKENS)), 2)
    text = " ".join([*WORDS, *WORDS])
    num_masked = 0
    for masked, batch in zip(batches, batches.map(next_token_targets).as_numpy_iterator(), strict=True):
        num_masked += np.sum(masked["input_ids"] != batch["input_ids"])
        for ids, mask, positions, targets, weights in zip(
            *(batch[name] for name in ("input_ids", "input_mask")),
            *(batch[f"masked_lm_{name}"] for name in ("positions", "ids", "weights")),
            strict=True,
        ):
            length = mask.sum()
            np.testing.assert_array_equal(positions, np.arange(23))
            np.testing.assert_array_equal(targets, ids[1:])
            np.testing.assert_array_equal(weights, np.arange(23) < length - 1)
            if length:  # the last batch has a row of padding
                words = " ".join(TOKENS[id_] for id_ in ids[1 : length - 1]).replace(" ##", "")
                assert (TOKENS[ids[0]], TOKENS[ids[length - 1]]) == ("[CLS]", "[SEP]")
                # An example may begin or end within a word.
                assert words.removeprefix("##") in text
    assert num_masked > 20


def next_token_loss(flags):
    """Returns the loss of the weights of a run on held-out records, by the NumPy network and a plain loop."""
    weights = weights_in(flags["output_dir"])
    bert = ReferenceBert(1, 2, "gelu", weights, is_decoder=True)
    losses = []
    for batch in evaluation_batches(open_records(str(flags["eval_file"]), 12, 3, 40), 1).as_numpy_iterator():
        ids, mask = batch["input_ids"].copy(), batch["input_mask"]
        chosen = batch["masked_lm_weights"] > 0
        ids[0, batch["masked_lm_positions"][chosen]] = batch["masked_lm_ids"][chosen]
        _, layers, _ = bert.encode(ids, mask, batch["segment_ids"])
        log_probs = bert.masked_lm_log_probs(layers[-1], [range(12)])[0]
        losses += [-log_probs[place, ids[0, place + 1]] for place in range(mask.sum() - 1)]
    return np.mean(losses)


@pytest.mark.usefixtures("no_graphs")
def test_the_loss_is_that_of_the_next_tokens(flags, tmp_path, capsys):
    flags["eval_file"] = tmp_path / "held_out.tfrecord"
    metrics = run(flags)
    assert metrics["masked_lm_loss"] == pytest.approx(next_token_loss(flags), rel=1e-5)
    output = " ".join(capsys.readouterr().out.split())
    assert "is_decoder in the config: the model reads left to right and learns the next tokens" in output
    assert '"is_decoder": true' in (flags["output_dir"] / "bert_config.json").read_text()
    # Packed rows in two micro-batches give the same updates.
    packed = {**flags, "output_dir": tmp_path / "packed", "gradient_accumulation_steps": 2, "pack": True}
    assert run(packed) == pytest.approx(metrics, rel=1e-4)
    assert_near(weights_in(packed["output_dir"]), weights_in(flags["output_dir"]))


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_stopped_run_continues_as_if_it_had_not(flags, tmp_path):
    flags |= {"deterministic": True, "iterations_per_loop": 1}
    assert_continues(flags, run(flags), tmp_path / "stopped", 2)


@pytest.mark.usefixtures("no_graphs")
def test_a_run_of_the_other_direction_is_refused(flags, tiny_config):
    run({**flags, "num_train_steps": 1, "do_eval": False})
    tiny_config.to_json_file(flags["bert_config_file"])
    with pytest.raises(ValueError, match="is_decoder was True and is not given now"):
        run(flags)
    other = {**flags, "output_dir": f"{flags['output_dir']}2", "init_checkpoint": flags["output_dir"]}
    with pytest.raises(ValueError, match="is_decoder is False, not True; give the config in its folder"):
        run(other)
