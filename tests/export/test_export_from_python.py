"""`export_model`: its arguments, and its messages. The page "Train from Python" runs it to the end."""

import pytest

from bert_keras import export_model


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ValueError, "^missing: model_dir, or init_checkpoint and task "),
        ({"formats": "onnx"}, TypeError, r'^export_model\(\) has no setting "formats"; did you mean "format"\?$'),
        ({"format": ["onnx", "paper"], "model_dir": "x"}, ValueError, "paper"),
        ({"top_k": 0}, ValueError, "^top_k=0: 0 is not a whole number from 1"),
        (
            {"model_dir": "x", "top_k": 3},
            ValueError,
            "^top_k: the model sets this itself; leave it out$",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, settings, error, message):
    with pytest.raises(error, match=message):
        export_model(export_dir=tmp_path / "export", verbose=False, **settings)
    assert not (tmp_path / "export").exists()
