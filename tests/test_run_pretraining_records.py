"""Pre-training on records as models after BERT have them: without masks, without a sentence task, compressed."""

from pretraining_runs import make_files, run

from data_prep.create_pretraining_data import main


def test_training_needs_no_flag_for_records_without_masks_and_labels(tmp_path, tiny_config, write_records, capsys):
    flags = make_files(tmp_path, tiny_config, write_records)
    letters = [chr(code) for code in range(ord("a"), ord("r"))]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (tmp_path / "text.txt").write_text("abc de\nfgh ij\nkl mno p\n\npq ab\ncde fg hij\n\n" * 20)
    arguments = [
        "--max_seq_length=12",
        "--max_predictions_per_seq=3",
        "--dupe_factor=1",
        f"--vocab_file={tmp_path}/vocab.txt",
    ]
    arguments += ["--sentence_task=none", "--dynamic_masking", f"--output_file={tmp_path}/new.tfrecord.gz"]
    main(["create_pretraining_data.py", f"--input_file={tmp_path}/text.txt", *arguments])
    flags = {**flags, "input_file": tmp_path / "new.tfrecord.gz", "eval_file": tmp_path / "new.tfrecord.gz"}
    metrics = run(flags, do_train=True, do_eval=True)
    assert 0 < metrics["masked_lm_loss"] < 4
    assert 0 <= metrics["masked_lm_accuracy"] <= 1
    assert metrics["next_sentence_loss"] == metrics["next_sentence_accuracy"] == 0
