"""Packaging of bert-keras. The tested version ranges are the ones given here."""

import pathlib
import re

from setuptools import setup

ROOT = pathlib.Path(__file__).parent
# Read, not imported, because building must not need the packages that the project needs.
VERSION = re.findall(r'^__version__ = "(.+)"$', (ROOT / "bert_keras" / "__init__.py").read_text("utf-8"), re.M)[0]
# An index of packages does not have the pictures and pages of the repository: their links become text.
README = re.sub(r"(?:!\[.*?\]\(.*?\)|<img .*?>)\n+", "", (ROOT / "README.md").read_text("utf-8"))
README = re.sub(r"\[([^\[\]]+)\]\((?!https?:|#).*?\)", r"\1", README)

PACKAGES = [
    "cli",
    "commands",
    "data_prep",
    "data_prep.cleaning",
    "data_prep.corpus",
    "data_prep.pretraining",
    "data_prep.records",
    "data_prep.sample",
    "data_prep.text",
    "data_prep.text.graph",
    "engine",
    "engine.distribution",
    "engine.input",
    "evaluation",
    "export",
    "export.card",
    "export.checks",
    "export.formats",
    "model_folder",
    "modeling",
    "modeling.checkpoints",
    "modeling.objectives",
    "prediction",
    "programs",
    "programs.model_check",
    "runs",
    "serving",
    "settings",
    "storage",
    "storage.tokenizer",
    "tasks",
    "tasks.benchmarks",
    "tasks.choice",
    "tasks.classification",
    "tasks.classification.report",
    "tasks.distillation",
    "tasks.dry_run",
    "tasks.few_shot",
    "tasks.finetuning",
    "tasks.graph",
    "tasks.pretraining",
    "tasks.question_answering",
    "tasks.reports",
    "tasks.reranking",
    "tasks.tables",
    "tasks.tagging",
    "tasks.vectors",
]
# Packages whose folders are at the top level of the clone.
TOP_LEVEL = ["data_prep", "modeling"]

HF = ["huggingface_hub>=2.4,<3"]
ONNX = ["tf2onnx>=1.17,<2", "onnx>=1.23,<2", "onnxruntime>=1.31,<2"]
# The last one finds the scales of int8.
OPENVINO = [*ONNX, "openvino>=2026.4,<2027", "nncf>=3.4,<4"]
LITERT = ["ai-edge-litert>=2.3,<3"]
# Notebooks: running them, and the kernel that runs their code.
EXAMPLES = ["nbclient>=0.11,<0.12", "nbformat>=5.11,<6", "ipykernel>=7.4,<8"]
SERVE = ["starlette>=1.10,<2", "uvicorn>=0.54,<0.55", "prometheus-client>=0.26,<0.27", "orjson>=3.11,<4"]
BROWSER = ["selenium>=4.51,<5"]
JIEBA = ["jieba>=0.42.1,<0.43"]
PARQUET = ["pyarrow>=26,<27"]
JAX = ["jax>=0.10,<0.11"]
# Python reads Zstandard itself from 3.14 on.
ZSTD = ["backports.zstd>=1,<2; python_version < '3.14'"]

EXTRAS = {
    "examples": EXAMPLES,
    "onnx": ONNX,
    "openvino": OPENVINO,
    "litert": LITERT,
    # For serve.py.
    "serve": SERVE,
    # For tests of the server's page, which also need the programs chromium and chromedriver.
    "browser": BROWSER,
    "tensorboard": ["tensorboard>=2.21,<2.22"],
    # With the CUDA libraries that TensorFlow was built for; only for Linux.
    "gpu": ["tensorflow[and-cuda]>=2.21,<2.22"],
    # For training with KERAS_BACKEND=jax, on a CPU; JAX has its own extras for other devices.
    "jax": JAX,
    # The compiler of the TPU (200 MB) for check_tpu.py; only for Linux. The hyphen is for the pip of Python 3.11.
    "tpu-check": [*JAX, "libtpu>=0.0.42,<0.1"],
    # For the benchmarks that compare with them.
    "peers": [
        *ONNX,
        "onnxscript>=0.5,<1",
        "torch>=2.13,<3",
        "transformers>=5.23,<6",
        "accelerate>=1.15,<2",
        "keras-hub>=0.32,<0.33",
        "sentence-transformers>=6.2,<7",
    ],
    # Needs protobuf below 7, so the tests' environment does not have it.
    "beam": ["apache-beam>=2.77,<3"],
    "zstd": ZSTD,
    # For the words of Chinese text in create_pretraining_data.py.
    "jieba": JIEBA,
    # For text in Parquet and Arrow.
    "parquet": PARQUET,
    # For models by their names on Hugging Face (hf://owner/name).
    "hf": HF,
    # For the documentation site, see mkdocs.yml.
    "docs": [
        "mkdocs>=1.6.1,<1.7",
        "mkdocs-material>=9.8,<10",
        "mkdocstrings>=1,<2",
        "mkdocstrings-python>=2,<3",
        "nbconvert>=7.17,<8",
    ],
    "test": [
        "pytest>=9,<10",
        "pytest-xdist>=3.8,<4",
        "hypothesis>=6.155,<7",
        *JAX,
        "ruff>=0.17,<0.18",
        # Tests of the server send requests with it.
        "requests>=2.32,<3",
        # Training on its tables is tested.
        "pandas>=3.1,<4",
        # A test compares the scores of entities with it.
        "seqeval>=1.2,<2",
        "tensorboard>=2.21,<2.22",
        *HF,
        *EXAMPLES,
        *ONNX,
        *LITERT,
        *SERVE,
        # A test validates the description of the HTTP routes with it.
        "openapi-spec-validator>=0.9,<0.10",
        *ZSTD,
        *PARQUET,
        *JIEBA,
    ],
}

setup(
    name="bert-keras",
    version=VERSION,
    description="BERT, the original release, on today's TensorFlow and Keras",
    long_description=README,
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    author="bert-keras developers",
    keywords=["BERT", "natural language processing", "TensorFlow", "Keras"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    python_requires=">=3.11",
    packages=["bert_keras", *(f"bert_keras.{name}" for name in PACKAGES)],
    package_dir={"bert_keras": "bert_keras"} | {f"bert_keras.{name}": name for name in TOP_LEVEL},
    package_data={
        "bert_keras": ["py.typed", "__init__.pyi", "tasks/*/web.js"],
        "bert_keras.data_prep.sample": ["*.txt", "*.csv", "*.json", "encoder/*"],
        "bert_keras.evaluation": ["*.html"],
        "bert_keras.export.checks": ["*.mjs"],
        "bert_keras.prediction": ["__init__.pyi"],
        "bert_keras.programs.model_check": ["*.json"],
        "bert_keras.serving": ["page/*"],
        "bert_keras.tasks": ["opening.pyi"],
    },
    include_package_data=False,
    entry_points={"console_scripts": ["bert-keras = bert_keras.__main__:main"]},
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "keras>=3.15,<4",
        # For tokenizers inside a graph; has no wheel for Windows.
        "tensorflow-text>=2.21,<2.22; platform_system != 'Windows'",
        "tensorflow-datasets>=4.9.10,<5",
        # tensorflow-datasets needs it for downloads, but does not require it.
        "importlib-resources>=6.5,<8",
        "absl-py>=2.3,<3",
        "numpy>=2,<3",
        "rich>=14,<16",
        "safetensors>=0.6,<1",
        "scikit-learn>=1.9,<2",
        "scipy>=1.17,<2",
        "h5py>=3.14,<4",
        "matplotlib>=3.10,<4",
        # Learns vocabularies.
        "tokenizers>=0.23,<0.24",
    ],
    extras_require=EXTRAS,
)
