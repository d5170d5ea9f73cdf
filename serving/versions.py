"""SavedModels with numbered versions: loading, labels, and the change to a new version while requests run."""

import contextlib
import dataclasses
import logging
import pathlib
import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

log = logging.getLogger("bert_keras")

_FILE = "saved_model.pb"
_INIT = "__saved_model_init_op"  # a signature that no client may call
_OPTIONS: Any = {"always_print_fields_with_no_presence": True, "preserving_proto_field_name": True}


class NotFoundError(Exception):
    """A model or a version does not exist."""


@dataclasses.dataclass(frozen=True)
class Version:
    """A loaded version of a SavedModel.

    Attributes:
        number: as in the name of its folder.
        definitions: SignatureDef by name.
    """

    number: int
    definitions: Mapping[str, meta_graph_pb2.SignatureDef]
    _loaded: Any

    def definition(self, name: str) -> meta_graph_pb2.SignatureDef:
        """Returns a signature."""
        if name not in self.definitions:
            raise ValueError(f'Serving signature key "{name}" not found.')
        return self.definitions[name]

    def run(self, name: str, inputs: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        """Returns the outputs of a signature as arrays."""
        return {key: value.numpy() for key, value in self._loaded.signatures[name](**inputs).items()}

    def warm_up(self) -> None:
        """Runs each signature once with zeros and empty strings, so that the first request is as fast as later ones."""
        for name, definition in self.definitions.items():
            inputs = {key: _made_up(info) for key, info in definition.inputs.items()}
            try:
                self.run(name, inputs)
            except (tf.errors.OpError, ValueError, TypeError) as error:
                reason = str(error).splitlines()[0]
                log.info("version %d: the signature %s takes no made-up input: %s", self.number, name, reason)

    def metadata(self) -> dict[str, Any]:
        """Returns all signatures as JSON."""
        return {name: json_format.MessageToDict(value, **_OPTIONS) for name, value in self.definitions.items()}


def _made_up(info):
    """Returns an input of a signature; its axes have the length 1 where the signature leaves them open."""
    dtype = tf.as_dtype(info.dtype)
    shape = [max(1, dim.size) if dim.size else 0 for dim in info.tensor_shape.dim]
    return tf.fill(shape, tf.constant("", dtype) if dtype == tf.string else tf.zeros([], dtype))


def has_versions(folder: str) -> bool:
    """Returns whether a folder is a SavedModel, or has numbered folders with SavedModels."""
    return bool(_numbers(folder))


def _numbers(folder):
    """Returns the path of each version by its number."""
    if not pathlib.Path(folder).is_dir():
        return {}
    if pathlib.Path(folder, _FILE).is_file():
        return {1: pathlib.Path(folder)}
    paths = (path for path in pathlib.Path(folder).iterdir() if path.name.isascii() and path.name.isdecimal())
    return {int(path.name): path for path in sorted(paths) if (path / _FILE).is_file()}


def _load(number, path):
    with contextlib.suppress(ImportError):  # its operations tokenize; not every model needs them
        import tensorflow_text  # noqa: F401
    definition = saved_model_pb2.SavedModel.FromString((path / _FILE).read_bytes())
    [graph] = [graph for graph in definition.meta_graphs if "serve" in graph.meta_info_def.tags]
    signatures = {name: value for name, value in graph.signature_def.items() if name != _INIT}
    log.info("%s: version %d is loaded", path.parent, number)
    return Version(number, signatures, tf.saved_model.load(str(path), tags=["serve"]))


class VersionedModel:
    """A model whose folder has numbered versions. The newest one is served, and those that have a label.

    Args:
        name: as in requests.
        folder: the folder of the versions, or one SavedModel, which is version 1. A new version must get its final name
            when its files are complete.
        labels: number of the version of each label.
    """

    def __init__(self, name: str, folder: str, labels: Mapping[str, int]):
        self.name, self.folder, self.labels = name, folder, dict(labels)
        self._versions: dict[int, Version] = {}
        self._broken: set[int] = set()
        self._is_stopped = threading.Event()
        paths = _numbers(folder)
        for label, number in self.labels.items():
            if number not in paths:
                raise ValueError(
                    f"the label {label} is for version {number} of {name}, but {folder} has no such version"
                )
        wanted = {max(paths), *self.labels.values()}
        self._versions = {number: _load(number, paths[number]) for number in sorted(wanted)}

    @property
    def versions(self) -> list[Version]:
        """The loaded versions, the newest first."""
        return sorted(self._versions.values(), key=lambda version: -version.number)

    def version(self, number: int | None = None, label: str | None = None) -> Version:
        """Returns a loaded version: by its number, by its label, or the newest."""
        versions = self._versions  # a change makes a new dict, and does not touch this one
        if label is not None:
            if label not in self.labels:
                raise ValueError(f"Unrecognized servable version label: {label}")
            number = self.labels[label]
        if number is None:
            return versions[max(versions)]
        if number not in versions:
            raise NotFoundError(f"Servable not found for request: Specific({self.name}, {number})")
        return versions[number]

    def update(self) -> None:
        """Loads a newer version if there is one; the old one is dropped afterwards, when its requests have ended."""
        paths = _numbers(self.folder)
        newest = max((number for number in paths if number not in self._broken), default=0)
        if newest <= max(self._versions):
            return
        try:
            loaded = _load(newest, paths[newest])
            loaded.warm_up()
        except Exception as error:  # the old version stays
            self._broken.add(newest)
            log.error("%s: version %d cannot be loaded: %s", self.folder, newest, error)
            return
        kept = {number: self._versions[number] for number in self.labels.values()}
        self._versions = {**kept, newest: loaded}

    def watch(self, seconds: float) -> None:
        """Warms up the versions, then looks for new ones in a thread."""
        for version in self.versions:
            version.warm_up()

        def look():
            while not self._is_stopped.wait(seconds):
                self.update()

        threading.Thread(target=look, name=f"versions of {self.name}", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread of `watch`."""
        self._is_stopped.set()
