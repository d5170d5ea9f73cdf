"""The REST interface of TensorFlow Serving, by the cases of its own tests."""

import json
import math
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("uvicorn", reason="needs the extra [serve]")
pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")

import requests
from google.protobuf import json_format
from running_server import serving, write_adder

from bert_keras.serving import tensorflow_rest
from bert_keras.serving.json_tensors import parse_json, predict_answer, read_examples, read_inputs, signature_name_of
from bert_keras.serving.requests import RefusedError
from bert_keras.serving.versions import VersionedModel

DATA = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tf_serving"
NAME = "saved_model_half_plus_two_2_versions"
NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
needs_data = pytest.mark.skipif(not DATA.exists(), reason="needs ../shared")


def cases(kind):
    lines = (DATA / "cases.jsonl").read_text().splitlines() if DATA.exists() else []
    found = [case for case in map(json.loads, lines) if case["kind"] == kind]
    return [pytest.param(case, id=f"{case['id']} {case['test']}") for case in found]


def content(case):
    """Return the body of a case."""
    pieces = case.get("body_pieces")
    return "".join(text * count for text, count in pieces) if pieces else case["body"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with version 123 of the model, which the label Version_Label names."""
    folder = tmp_path_factory.mktemp("versions")
    shutil.copytree(DATA / NAME / "00000123", folder / "00000123")
    model = VersionedModel(NAME, str(folder), {"Version_Label": 123})
    with serving([], versioned=[model]) as running:
        yield running


@needs_data
@pytest.mark.parametrize("case", cases("server"))
def test_a_request_to_the_server(server, case):
    response = requests.request(case["method"], server.url + case["path"], data=case["body"], timeout=60)
    assert response.status_code == case["status"], response.text
    assert response.headers["Content-Type"] == "application/json"
    if "expect_file" in case:
        assert response.json() == json.loads((DATA / case["expect_file"]).read_text())
    elif "expect" in case:
        assert response.json() == case["expect"]
    else:
        assert list(response.json()) == ["error"]
        assert case.get("error_has", "") in response.json()["error"]


@needs_data
@pytest.mark.parametrize("case", cases("route"))
def test_which_paths_belong_to_the_interface(server, case):
    response = requests.request(case["method"], server.url + case["path"], timeout=60)
    assert (response.status_code != 404) == case["routed"]


@needs_data
@pytest.mark.parametrize("case", cases("path"))
def test_the_parts_of_a_path(case):
    parts = tensorflow_rest.parse_path(case["method"], case["path"])
    parts["model_name"] = parts.pop("name")
    assert {name: value for name, value in parts.items() if value is not None} == case["parsed"]


@needs_data
@pytest.mark.parametrize("case", cases("predict_request"))
def test_the_tensors_of_a_request(case):
    dtypes = {name: getattr(tf, _dtype(dtype)) for name, dtype in case["signature_inputs"].items()}

    def read():
        body = parse_json(content(case))
        signature_name_of(body)
        return read_inputs(body, dtypes)

    if "error_has" in case:
        with pytest.raises(ValueError) as error:  # noqa: PT011 (compared below)
            read()
        assert case["error_has"] in str(error.value)
        return
    tensors, is_row = read()
    if "tensor_count" in case:
        assert len(tensors) == case["tensor_count"]
        return
    assert is_row == (case["format"] == "row")
    assert set(tensors) == set(case["tensors"])
    for name, expected in case["tensors"].items():
        assert tensors[name].dtype == getattr(tf, _dtype(expected["dtype"]))
        np.testing.assert_array_equal(tensors[name].numpy(), _array(expected))


def _dtype(name):
    return {"DT_FLOAT": "float32", "DT_DOUBLE": "float64"}.get(name, name.removeprefix("DT_").lower())


def _array(tensor):
    values = [NUMBERS.get(value, value) if isinstance(value, str) else value for value in tensor["values"]]
    if tensor["dtype"] == "DT_STRING":
        values = np.array([value.encode() for value in tensor["values"]], object)
    dtype = getattr(tf, _dtype(tensor["dtype"])).as_numpy_dtype
    return np.array(values, dtype).reshape(tensor["shape"])


@needs_data
@pytest.mark.parametrize("case", cases("examples_request"))
def test_examples_that_cannot_be_read(case):
    def read():
        body = parse_json(content(case))
        signature_name_of(body)
        read_examples(body)

    with pytest.raises(ValueError) as error:  # noqa: PT011 (compared below)
        read()
    assert case["error_has"] in str(error.value)


@needs_data
@pytest.mark.parametrize("case", cases("response"))
def test_the_body_of_a_response(case):
    outputs = {name: _array(tensor) for name, tensor in case["tensors"].items()}
    if "error_has" in case:
        with pytest.raises(ValueError) as error:  # noqa: PT011 (compared below)
            predict_answer(outputs, case["format"] == "row")
        assert case["error_has"] in str(error.value)
        return
    text = tensorflow_rest.to_json(predict_answer(outputs, case["format"] == "row")).decode()
    if "expect_number_text" in case:
        assert json.dumps(case["expect_number_text"]).replace('"', "").replace(" ", "") in text
    else:
        assert json.loads(text) == case["expect"]


def test_a_new_version_replaces_the_old_one_while_requests_run(tmp_path):
    write_adder(tmp_path, 1)
    model = VersionedModel("add", str(tmp_path), {})
    found = []
    with serving([], versioned=[model]) as server:
        url = f"{server.url}/v1/models/add:predict"
        for number in range(60):
            if number == 5:
                write_adder(tmp_path, 2)
            response = requests.post(url, json={"instances": [1.5]}, timeout=60)
            assert response.status_code == 200, response.text
            found += response.json()["predictions"]
            if found[-1] == 3.5:
                break
            model.update()
        assert found == [2.5] * 6 + [3.5]
        (tmp_path / "3").mkdir()
        (tmp_path / "3" / "saved_model.pb").write_bytes(b"no model")
        model.update()
        states = requests.get(f"{server.url}/v1/models/add", timeout=60).json()["model_version_status"]
        assert [state["version"] for state in states] == ["2"]
        gone = requests.get(f"{server.url}/v1/models/add/versions/1", timeout=60)
        assert gone.status_code == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[1]", "Is not object"),
        ("{", "JSON Parse error"),
        ("[" * 5000 + "1,,2" + "]" * 5000, "JSON Parse error"),
        ("[" * 5000, "JSON Parse error"),
        ('{"instances": [1]} x', "JSON Parse error"),
    ],
)
def test_bodies_that_are_not_objects(body, message):
    with pytest.raises(ValueError, match=message):
        parse_json(body)


def test_a_deep_body_is_read_as_a_flat_one():
    depth = 3000
    value = parse_json('{"a": ' + "[" * depth + '{"b": [1, "x\\"]", NaN]}, {}' + "]" * depth + ', "c": {"d": null}}')
    inner = value["a"]
    for _ in range(depth - 1):
        [inner] = inner
    assert inner[0]["b"][:2] == [1, 'x"]']
    assert math.isnan(inner[0]["b"][2])
    assert (inner[1], value["c"]) == ({}, {"d": None})


def test_a_request_that_is_malformed():
    with pytest.raises(RefusedError, match="Malformed request: PUT /v1/models/x:predict"):
        tensorflow_rest.parse_path("PUT", "/v1/models/x:predict")


@needs_data
def test_a_client_and_the_protos_of_tensorflow_serving_take_the_answers(server):
    apis = pytest.importorskip("tensorflow_serving.apis.get_model_status_pb2")
    metadata_apis = pytest.importorskip("tensorflow_serving.apis.get_model_metadata_pb2")
    client = pytest.importorskip("ovmsclient").make_http_client(server.url.removeprefix("http://"))
    url = f"{server.url}/v1/models/{NAME}"
    status = json_format.Parse(requests.get(url, timeout=60).text, apis.GetModelStatusResponse())
    assert [each.version for each in status.model_version_status] == [123]
    metadata = requests.get(f"{url}/metadata", timeout=60).json()["metadata"]["signature_def"]
    signatures = json_format.ParseDict(metadata, metadata_apis.SignatureDefMap())
    assert len(signatures.signature_def) == 6
    assert client.get_model_status(NAME, 123)[123]["state"] == "AVAILABLE"
    assert "serving_default" in str(client.get_model_metadata(NAME, 123))
    np.testing.assert_array_equal(
        client.predict({"x": np.array([[1.0], [2.0]], np.float32)}, NAME, 123), [[2.5], [3.0]]
    )
