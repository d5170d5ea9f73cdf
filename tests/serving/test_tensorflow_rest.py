"""The REST interface of TensorFlow Serving, by the cases of its own tests."""

import json
import math
import pathlib
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("uvicorn", reason="needs the extra [serve]")
pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")

import jsonschema
import requests
from google.protobuf import json_format
from running_server import serving, write_adder

from bert_keras.serving import tensorflow_rest
from bert_keras.serving.json_tensors import parse_json, predict_answer, read_examples, read_inputs, signature_name_of
from bert_keras.serving.requests import RefusedError
from bert_keras.serving.versions import Version, VersionedModel

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


def test_a_whole_number_that_no_float_has_is_refused():
    with pytest.raises(ValueError, match="is not of expected type: float32"):
        read_inputs({"inputs": [10**400]}, {"x": tf.float32})


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


def test_its_requests_are_measured_and_described(tmp_path):
    validator = pytest.importorskip("openapi_spec_validator")
    write_adder(tmp_path, 1)
    model = VersionedModel("add", str(tmp_path), {})
    run = mock.patch.object(Version, "run", autospec=True, side_effect=Version.run)
    with run as spy, serving([], versioned=[model]) as server:
        assert [call.args[1] for call in spy.call_args_list] == ["serving_default"]  # the warm-up
        url = f"{server.url}/v1/models/add"
        for path, body, status in ((":predict", {"inputs": [1]}, 200), (":predict", {}, 400), (":regress", {}, 400)):
            assert requests.post(url + path, json=body, timeout=60).status_code == status
        assert requests.get(f"{server.url}/v1/models/none", timeout=60).status_code == 404
        metrics = requests.get(f"{server.url}/metrics", timeout=60).text
        for name, task, status in (("add", "predict", 200), ("add", "predict", 400), ("", "status", 404)):
            labels = f'length="0",model="{name}",status="{status}",task="{task}"'
            assert f"bert_request_seconds_count{{{labels}}} 1.0" in metrics
        document = requests.get(f"{server.url}/openapi.json", timeout=60).json()
    validator.OpenAPIV31SpecValidator(document).validate()
    verbs = ("", "/metadata", ":predict", ":classify", ":regress")
    assert set(document["paths"]) == {f"/v1/models/add{verb}" for verb in verbs}
    body = document["paths"]["/v1/models/add:predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate({"inputs": [1]}, body)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"instances": [1], "inputs": [1]}, body)


def test_a_signature_that_takes_no_made_up_input_is_not_an_error(tmp_path, caplog):
    module = tf.Module()
    x = tf.TensorSpec([None], tf.float32, name="x")
    module.check = tf.function(lambda x: {"y": tf.ensure_shape(x, [3])}, input_signature=[x])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.check)
    with caplog.at_level("INFO", "bert_keras"), serving([], [VersionedModel("m", str(tmp_path), {})]) as server:
        answer = requests.post(f"{server.url}/v1/models/m:predict", json={"inputs": [1, 2, 3]}, timeout=60)
        assert answer.json() == {"outputs": [1.0, 2.0, 3.0]}
    assert "the signature serving_default takes no made-up input" in caplog.text


@pytest.mark.parametrize("name", ["add", *([NAME] if DATA.exists() else [])])
def test_a_client_and_the_protos_of_tensorflow_serving_take_the_answers(tmp_path, name):
    apis = pytest.importorskip("tensorflow_serving.apis.get_model_status_pb2")
    metadata_apis = pytest.importorskip("tensorflow_serving.apis.get_model_metadata_pb2")
    make_client = pytest.importorskip("ovmsclient").make_http_client
    if name == "add":
        write_adder(tmp_path, 1)
    else:
        shutil.copytree(DATA / NAME / "00000123", tmp_path / "1")
    with serving([], versioned=[VersionedModel(name, str(tmp_path), {})]) as server:
        client, url = make_client(server.url.removeprefix("http://")), f"{server.url}/v1/models/{name}"
        status = json_format.Parse(requests.get(url, timeout=60).text, apis.GetModelStatusResponse())
        assert [(each.version, each.State.Name(each.state)) for each in status.model_version_status] == [
            (1, "AVAILABLE")
        ]
        metadata = requests.get(f"{url}/metadata", timeout=60).json()["metadata"]["signature_def"]
        signatures = json_format.ParseDict(metadata, metadata_apis.SignatureDefMap())
        assert len(signatures.signature_def) == (1 if name == "add" else 6)
        assert client.get_model_status(name, 1)[1]["state"] == "AVAILABLE"
        assert "serving_default" in str(client.get_model_metadata(name, 1))
        x = np.array([1.0, 2.0], np.float32) if name == "add" else np.array([[1.0], [2.0]], np.float32)
        expected = x + 1 if name == "add" else x / 2 + 2
        np.testing.assert_array_equal(client.predict({"x": x}, name, 1), expected)
