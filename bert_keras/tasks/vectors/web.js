/** Vectors of texts in the browser, see web_answers.js. */

import { codePoints } from "./tokenizer.js";
import { checkText, join, tokensOf } from "./web_sequences.js";

function encodeText(model, { text }, source, { prefix }) {
  checkText(model, text, source);
  const before = prefix ?? model.settings.prefix ?? "";
  // The tokens of the prefix have an empty place at the start of the text, as in data_prep/text/places.py.
  const moved = (place) => Math.max(0, place - codePoints(before).length);
  const tokens = tokensOf(model, before + text, "text").map((token) => ({
    ...token,
    start: moved(token.start),
    end: moved(token.end),
  }));
  const room = model.settings.max_seq_length - 2;
  return { sequences: [join(model, tokens.slice(0, room))], isCut: tokens.length > room };
}

function makeVector(model, { text }, encoded, outputs) {
  const { data, dims } = outputs[0].sequence_output; // [1, T, H]
  const [, numTokens, size] = dims;
  const vector = Array.from(data.subarray(0, size));
  for (let place = 1; place < numTokens && model.settings.pooling !== "cls"; place++) {
    for (let number = 0; number < size; number++) {
      const value = data[place * size + number];
      vector[number] = model.settings.pooling === "max" ? Math.max(vector[number], value) : vector[number] + value;
    }
  }
  let divisor = model.settings.pooling === "mean" ? numTokens : 1;
  if (model.settings.normalize) divisor = Math.max(Math.hypot(...vector), divisor * 1e-12);
  return { text, vector: vector.map((value) => value / divisor) };
}

function checkPrefix(model, { prefix }) {
  if (typeof (prefix ?? "") !== "string") throw new Error("the option prefix must be a text");
}

export const TASKS = {
  vectors: { encode: encodeText, answer: makeVector, options: () => ({ prefix: null }), check: checkPrefix },
};
