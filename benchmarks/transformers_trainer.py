"""Fine-tunes MRPC with transformers' Trainer, for the comparison in `fine_tuning_speed.py`.

    python benchmarks/transformers_trainer.py --data_dir=glue/MRPC --init_checkpoint=minilm --output_dir=/tmp/mrpc

The Trainer keeps its defaults for all that the flags do not set. --padding=longest pads the sequences of a batch to the
longest, as `DataCollatorWithPadding` does; otherwise all have 128 tokens. --padding=grouped also makes batches of
similar lengths. Writes the scores to evaluation.json.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from absl import flags
from sklearn import metrics

_MAX_SEQ_LENGTH = 128


def main(argv):
    """Runs the program."""
    values = flags.FlagValues()
    for name in ("data_dir", "init_checkpoint", "output_dir"):
        flags.DEFINE_string(name, None, "A folder.", flag_values=values)
    flags.DEFINE_enum("precision", "float32", ("float32", "bfloat16"), "Number format of products.", flag_values=values)
    flags.DEFINE_enum(
        "padding", "max_length", ("max_length", "longest", "grouped"), "Length of a batch.", flag_values=values
    )
    flags.DEFINE_float("num_train_epochs", 3.0, "Training epochs.", flag_values=values)
    flags.DEFINE_integer("train_batch_size", 32, "Examples in a step.", flag_values=values)
    flags.DEFINE_integer("seed", 1, "Seed of the run.", flag_values=values)
    values(argv)
    torch.set_num_threads(os.cpu_count())
    arguments = transformers.TrainingArguments(
        output_dir=values.output_dir,
        per_device_train_batch_size=values.train_batch_size,
        per_device_eval_batch_size=values.train_batch_size,
        num_train_epochs=values.num_train_epochs,
        bf16=values.precision == "bfloat16",
        use_cpu=os.environ.get("CUDA_VISIBLE_DEVICES") == "",
        seed=values.seed,
        train_sampling_strategy="group_by_length" if values.padding == "grouped" else "random",
    )
    transformers.set_seed(values.seed)  # for the head's random weights
    tokenizer = transformers.AutoTokenizer.from_pretrained(values.init_checkpoint)
    is_padded = values.padding == "max_length"
    files = [os.path.join(values.data_dir, f"{name}.tsv") for name in ("train", "dev")]
    train, dev = (read_examples(file, tokenizer, is_padded) for file in files)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(values.init_checkpoint, num_labels=2)
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=train,
        eval_dataset=dev,
        data_collator=None if is_padded else transformers.DataCollatorWithPadding(tokenizer),
        compute_metrics=score,
    )
    trained = trainer.train()
    scores = trainer.evaluate()
    figures = {name: scores[f"eval_{name}"] for name in ("f1", "accuracy")}
    figures["train_samples_per_second"] = trained.metrics["train_samples_per_second"]
    file = pathlib.Path(values.output_dir, "evaluation.json")
    file.write_text(json.dumps({"metrics": figures}) + "\n", encoding="utf-8")


def read_examples(path, tokenizer, is_padded):
    """Reads a file of MRPC (a header, then quality, two ids, two sentences) and cuts it to 128 tokens, or pads it."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file][1:]
    encoded = tokenizer(
        [row[3] for row in rows],
        [row[4] for row in rows],
        padding="max_length" if is_padded else False,
        truncation=True,
        max_length=_MAX_SEQ_LENGTH,
    )
    columns = {**encoded, "labels": [int(row[0]) for row in rows]}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def score(predictions):
    """Returns F1 and accuracy of a `transformers.EvalPrediction`."""
    predicted = predictions.predictions.argmax(-1)
    return {
        "f1": metrics.f1_score(predictions.label_ids, predicted),
        "accuracy": metrics.accuracy_score(predictions.label_ids, predicted),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv))
