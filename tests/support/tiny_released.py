"""A made-up released model whose archive a server on this machine has."""

import io
import zipfile

from http_servers import file_server
from known_models import TOKENS, randomise, write_model

from bert_keras.modeling import BertConfig, PretrainingModel, released

NAME = "uncased_L-1_H-64_A-1"


def add_model(patch, address):
    """Replaces the table of released models by one model, which `patch` undoes. Returns it."""
    model = released.ReleasedModel(
        name=NAME,
        alias="nano",
        address=address,
        has_folder=True,
        num_hidden_layers=1,
        hidden_size=64,
        vocab_size=len(TOKENS),
        do_lower_case=True,
        hugging_face="google-bert/bert-nano-uncased",
        advice="For tests.",
    )
    patch.setattr(released, "_MODELS", (model,))
    return model


def write_files(folder):
    """Writes the files of the model, whose table must be in use. Returns the folder."""
    return write_model(folder, randomise(PretrainingModel(BertConfig.from_name(NAME))))


def zip_of(folder, prefix=f"{NAME}/", left_out=()):
    """Returns the bytes of a zip file with the files of a folder."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.name not in left_out:
                archive.write(path, f"{prefix}{path.name}")
    return data.getvalue()


def served_model(patch, folder):
    """Returns a context manager of a FileServer with the archive of the model, which is in the table."""
    add_model(patch, "http://127.0.0.1:9/nano.zip")
    return file_server(zip_of(write_files(folder)))
