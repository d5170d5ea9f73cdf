"""Makes three tables of the sample messages: 40 texts with a label, 400 without one, and 160 to test with."""

import argparse
import csv
import pathlib
import random

parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", type=pathlib.Path)
folder = parser.parse_args().output_dir
with open("data_prep/sample/messages.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
random.Random(1).shuffle(rows)
tables = {
    "labelled.csv": (rows[:40], ["text", "label"]),
    "unlabelled.csv": (rows[40:440], ["text"]),
    "test.csv": (rows[440:], ["text", "label"]),
}
folder.mkdir()
for name, (part, columns) in tables.items():
    with open(folder / name, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        table.writerows(part)
