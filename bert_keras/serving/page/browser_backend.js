/**
 * The backend of the page without a server: the model runs in the browser, with ONNX Runtime Web. The web export has
 * this file as backend.js. Its functions are those of server_backend.js.
 */

import { Tokenizer } from "./tokenizer.js";
import { answer, encode, labelsOf, lengthOf, optionNames, optionsOf, partsOf } from "./web_answers.js";

const RUNTIME = "ort.wasm.bundle.min.mjs";
const WEBASSEMBLY = "ort-wasm-simd-threaded.wasm";
// A module whose function returns the constant 0 of 128 bits.
const MODULE_WITH_SIMD = [
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0],
  ...[0x0a, 0x16, 1, 0x14, 0, 0xfd, 0x0c, ...new Array(16).fill(0), 0x0b],
];

/** As in server_backend.js; here the network reads one text at a time. */
export const batchSize = 1;

let described = null;
let opened = null;
let lastRun = Promise.resolve();

/** Returns the one model of this folder in a list, as GET /models. */
export const models = withSentences(async () => {
  const { name, route, fields, page, settings } = await description();
  // The network loads while the reader writes. The first answer tells its error.
  theModel().catch(() => {});
  const { task, max_seq_length } = settings;
  const labels = labelsOf(settings);
  const options = optionNames(settings);
  return [
    {
      ...{ name, task, route, fields, page, options, labels },
      ...{ max_seq_length, num_layers: null, num_heads: null },
    },
  ];
});

/** Returns the answer to each item, the objects that the HTTP route answers. Its errors are as in server_backend.js. */
export const answers = withSentences(async (_, items, options) => {
  const model = await theModel();
  const chosen = optionsOf(model, options);
  try {
    const encoded = items.map((item, number) => encode(model, item, nameOf(number, items), chosen));
    const found = [];
    for (const [number, item] of items.entries()) {
      const made = await answer(model, item, encoded[number], chosen, async (features) => {
        await nextTask();
        return run(model, features);
      });
      found.push({ ...made, ...lengthOf(model, item, encoded[number]) });
    }
    return found;
  } catch (error) {
    throw Object.assign(error, { isOfTexts: true });
  }
});

/** Returns the name of an item for error messages, as the server names it. */
const nameOf = (number, items) => (items.length > 1 ? `item ${number + 1}` : "the request");

/** Lets the page draw and take a click. Browsers slow timers of hidden pages down, but not messages. */
function nextTask() {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resume) => {
    port1.onmessage = () => resume(port1.close());
    port2.postMessage(null);
  });
}

/** Returns how the tokenizer cuts an item: its sequences of tokens with their places in the texts. */
export const tokens = withSentences(async (_, item) => {
  const model = await theModel();
  const described = ({ id, start, end, text }) => ({ token: model.tokenizer.token(id), start, end, text });
  return encode(model, item, nameOf(0, [item])).sequences.map((sequence) => ({ tokens: sequence.tokens.map(described) }));
});

/** There is no request to show. */
export function requestOf() {
  return null;
}

/** Returns a function whose errors begin with a capital letter and end with a full stop. */
function withSentences(call) {
  return async (...values) => {
    try {
      return await call(...values);
    } catch (error) {
      if (error.constructor !== Error) throw error;
      const sentence = `${error.message[0].toUpperCase()}${error.message.slice(1)}.`;
      throw Object.assign(new Error(sentence), { isOfTexts: error.isOfTexts });
    }
  };
}

/** Returns model.json, which is read once; after a failure, the next call tries again. */
function description() {
  described ??= read("model.json").then((response) => response.json());
  described.catch(() => (described = null));
  return described;
}

/** Returns the model, which is opened once; after a failure, the next call tries again. */
function theModel() {
  opened ??= open();
  opened.catch(() => (opened = null));
  return opened;
}

/** Reads the files of the folder and opens the network. */
async function open() {
  if (!WebAssembly.validate(Uint8Array.from(MODULE_WITH_SIMD))) {
    throw new Error("this browser has no WebAssembly SIMD, which the model needs; take a newer browser");
  }
  const [ort, model, vocabulary, tables, network] = await Promise.all([
    loadRuntime(),
    description(),
    read("vocab.txt").then((response) => response.text()),
    read("unicode.json").then((response) => response.json()),
    read("model.onnx").then((response) => response.arrayBuffer()),
  ]);
  let session;
  try {
    session = await ort.InferenceSession.create(new Uint8Array(network), { executionProviders: ["wasm"] });
  } catch (error) {
    throw new Error(`the model could not be opened (${error.message}); load the page again, or export the model again`);
  }
  return {
    ...model,
    ort,
    session,
    tokenizer: new Tokenizer(tables.tokenizer, vocabulary.split("\n").slice(0, -1)),
    ...partsOf(model.settings, tables),
    whiteSpace: new Set([...tables.white_space].map((char) => char.codePointAt(0))),
  };
}

async function loadRuntime() {
  let ort;
  try {
    ort = await import(new URL(RUNTIME, import.meta.url));
  } catch {
    throw new Error(`the file ${RUNTIME} could not be loaded; upload the whole folder of the export, and load the page again`);
  }
  // Threads need headers that most static hosts do not send.
  ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? 0 : 1;
  ort.env.wasm.wasmBinary = await (await read(WEBASSEMBLY)).arrayBuffer();
  return ort;
}

async function read(name) {
  let response;
  try {
    response = await fetch(new URL(name, import.meta.url));
  } catch {
    response = { ok: false, status: "no connection" };
  }
  if (!response.ok) {
    const advice = "upload the whole folder of the export, and load the page again";
    throw new Error(`the file ${name} could not be loaded (${response.status}); ${advice}`);
  }
  return response;
}

/** Runs the network on one sequence, after all earlier runs. */
function run({ ort, session }, features) {
  const tensors = Object.fromEntries(
    Object.entries(features).map(([key, values]) => [key, new ort.Tensor("int32", values, [1, values.length])]),
  );
  const result = lastRun.then(() => session.run(tensors)).catch((error) => {
    throw new Error(`the model could not answer (${error.message}); give shorter texts, or load the page again`);
  });
  lastRun = result.catch(() => {});
  return result;
}
