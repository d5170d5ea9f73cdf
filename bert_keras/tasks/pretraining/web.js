/** The tasks of pre-trained models in the browser, see web_answers.js. In their texts, [MASK] is a token. */

import { codePoints, textOf } from "./tokenizer.js";
import { checkAnyText, checkLimit, checkText, join, sigmoid, softmax, tokensOf } from "./web_sequences.js";

const MASK = "[MASK]";
const UNKNOWN = "[UNK]";

/** Returns the tokens of a text; each [MASK] is one. */
function tokensWithMasks(model, text, field) {
  const mask = model.tokenizer.id(MASK);
  const tokens = [];
  let start = 0; // in code points
  text.split(MASK).forEach((part, number) => {
    if (number) {
      tokens.push({ id: mask, start, end: start + MASK.length, text: field });
      start += MASK.length;
    }
    for (const token of tokensOf(model, part, field)) {
      tokens.push({ ...token, start: start + token.start, end: start + token.end });
    }
    start += codePoints(part).length;
  });
  return tokens;
}

/** Returns the sequence of one or two texts, which must fit. */
function wholeSequence(model, source, first, second = []) {
  const room = model.settings.max_seq_length - (second.length ? 3 : 2);
  const number = first.length + second.length;
  if (number > room) {
    const more = number - room;
    throw new Error(`${source} has ${number} tokens, ${more} more than the ${room} that the model takes; make it shorter`);
  }
  return join(model, first, second);
}

function encodeMasks(model, { text }, source) {
  checkAnyText(model, text, source, "text");
  const tokens = tokensWithMasks(model, text, "text");
  const mask = model.tokenizer.id(MASK);
  const numMasks = tokens.filter(({ id }) => id === mask).length;
  if (!numMasks) throw new Error(`${source} has no ${MASK}; write ${MASK} where a word is to be guessed`);
  checkLimit(model, "max_masks", numMasks, source, MASK);
  const sequence = wholeSequence(model, source, tokens);
  sequence.positions = sequence.tokens.flatMap(({ id }, place) => (id === mask ? [place] : []));
  return { sequences: [sequence] };
}

/** Returns the id of each candidate once; null without candidates. */
function candidateIds(model, candidates) {
  if (candidates === null || candidates === undefined) return null;
  const isList = Array.isArray(candidates) && candidates.length && candidates.every((word) => typeof word === "string");
  if (!isList) throw new Error("candidates must be a list of one word or more");
  const { tokenizer } = model;
  const ids = candidates.map((word) => {
    if (tokenizer.ids.has(word)) return tokenizer.id(word);
    const found = tokenizer.tokenize(word).map(({ id }) => id);
    if (found.length !== 1 || tokenizer.token(found[0]) === UNKNOWN) {
      const tokens = found.map((id) => tokenizer.token(id)).join(" ") || "no token";
      throw new Error(
        `candidates has "${word}", which the tokenizer turns into ${tokens}; a ${MASK} is one token, so give words ` +
          "that the vocabulary has",
      );
    }
    return found[0];
  });
  return [...new Set(ids)];
}

function fillMasks(model, { text }, encoded, outputs, { top_k: topK, candidates }) {
  const { data, dims } = outputs[0].logits; // [1, P, V]
  const size = dims[2];
  const ids = candidateIds(model, candidates);
  const number = Math.min(topK ?? ids?.length ?? model.settings.top_k, ids?.length ?? size);
  const parts = text.split(MASK);
  const masks = Array.from({ length: dims[1] }, (_, row) => {
    const probabilities = softmax(data.subarray(row * size, (row + 1) * size));
    const best = (ids ?? [...probabilities.keys()]).sort((a, b) => probabilities[b] - probabilities[a]);
    const before = parts.slice(0, row + 1).join(MASK);
    const after = parts.slice(row + 1).join(MASK);
    return best.slice(0, number).map((id) => {
      const token = model.tokenizer.token(id);
      return { token, probability: probabilities[id], sentence: append(model, before, token) + after };
    });
  });
  const best = masks.reduce((sentence, [guess], row) => append(model, sentence, guess.token) + parts[row + 1], parts[0]);
  return { text, masks, best };
}

/** Appends a token to a sentence; one that continues a word loses its "##" and the space before it. */
function append(model, sentence, token) {
  const codes = codePoints(sentence);
  while (codes.length && model.whiteSpace.has(codes.at(-1))) codes.pop();
  return token.startsWith("##") && token !== "##" && codes.length ? textOf(codes) + token.slice(2) : sentence + token;
}

/** Encodes the fields of an item, each of which needs a word. */
function encodeWhole(model, item, source) {
  const names = Object.keys(item);
  const texts = names.map((name, number) => {
    const what = names.length === 1 ? "text" : `${["first", "second"][number]} text`;
    checkText(model, item[name], source, what);
    const tokens = tokensWithMasks(model, item[name], name);
    if (!tokens.length) throw new Error(`${source} has no word in its ${what}; give a ${what}`);
    return tokens;
  });
  return { sequences: [wholeSequence(model, source, ...texts)] };
}

function follows(model, { text_a, text_b }, encoded, outputs) {
  return { text_a, text_b, probability: softmax(outputs[0].logits.data)[0] };
}

function findReplaced(model, { text }, { sequences: [{ tokens }] }, outputs) {
  const found = sigmoid(outputs[0].logits.data).map((probability, place) => ({
    token: model.tokenizer.token(tokens[place].id),
    probability,
  }));
  return { text, tokens: found.slice(1, -1) };
}

export const TASKS = {
  fill_mask: {
    encode: encodeMasks,
    answer: fillMasks,
    hasMasks: true,
    options: () => ({ top_k: null, candidates: null }),
    check: (model, { candidates }) => candidateIds(model, candidates),
  },
  next_sentence: { encode: encodeWhole, answer: follows, hasMasks: true, options: () => ({}) },
  replaced_tokens: { encode: encodeWhole, answer: findReplaced, hasMasks: true, options: () => ({}) },
};
