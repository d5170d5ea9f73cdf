/**
 * The tasks in the browser: from the texts of an item to sequences of tokens, and from the scores of the network to the
 * JSON object that the HTTP route of the task answers.
 *
 * A task has two functions. `encode(model, item, source)` checks an item and returns an object with `sequences`, each
 * {tokens, segments}; a token is {id, start, end, text}, and `text` names its field (null for [CLS] and [SEP]). If the
 * model does not read all tokens, `isCut` is true.
 * `answer(model, item, encoded, outputs, options)` takes the outputs of the network for each sequence.
 */

import { codePoints, textOf } from "./tokenizer.js";
import { checkAnyText, checkLimit, checkText, isBlank, join, softmax, tokensOf, windowStarts } from "./web_sequences.js";
import { answersOfSpans, encodeQuestion } from "./web_spans.js";
import { answerOfTags, encodeWords } from "./web_tags.js";
import { masked, placesOfWords, withWords } from "./web_why.js";

const MASK = "[MASK]";
const UNKNOWN = "[UNK]";
// In the texts of these tasks, [MASK] is a token.
const WITH_MASKS = ["fill_mask", "next_sentence", "replaced_tokens"];

/** Returns the checked options of a request: those of the task, with their defaults. */
export function optionsOf(model, given) {
  const defaults = { ...TASKS[model.settings.task].options(model.settings) };
  for (const [name, value] of Object.entries(given ?? {})) {
    if (!(name in defaults)) {
      const listed = Object.keys(defaults).join(", ") || "none";
      throw new Error(`"${name}" is not a field of this request; its options are: ${listed}`);
    }
    if (value !== null && value !== undefined) defaults[name] = value;
  }
  checkTopK(model, defaults.top_k);
  checkThreshold(model, defaults.threshold);
  checkCoverage(model, defaults.coverage);
  checkWhy(defaults.why);
  candidateIds(model, defaults.candidates);
  if (typeof (defaults.prefix ?? "") !== "string") throw new Error("the option prefix must be a text");
  return defaults;
}

/** Returns the names of the options of a task. */
export function optionNames(settings) {
  return Object.keys(TASKS[settings.task].options(settings));
}

/** Checks an item and turns it into sequences of tokens; some tasks need the options of the request. */
export function encode(model, item, source, options = {}) {
  const fields = model.fields;
  const named = fields.map((field) => `"${field}"`).join(" and ");
  if (typeof item !== "object" || item === null || Array.isArray(item)) {
    throw new Error(`${source} is not an object, but one with ${named} is needed`);
  }
  const has = Object.keys(item);
  if (has.length !== fields.length || !fields.every((field) => has.includes(field))) {
    const found = has.map((name) => `"${name}"`).join(", ") || "nothing";
    throw new Error(`${source} has ${found}, but the model ${model.name} needs ${named}`);
  }
  const encoded = TASKS[model.settings.task].encode(model, item, source, options);
  checkLimit(model, "max_sequences", encoded.sequences.length, source, "sequences of the model's length");
  if (options.why) {
    const number = placesOfWords(model, encoded.sequences).reduce((sum, [, rows]) => sum + rows.size, encoded.sequences.length);
    checkLimit(model, "max_sequences", number, source, "sequences for its words, each hidden once");
  }
  return encoded;
}

/** Returns the answer to an item as the JSON object of its route. `run` computes the outputs of a sequence. */
export async function answer(model, item, encoded, options, run) {
  const outputsOf = async (sequence) => {
    const outputs = await run(featuresOf(model, sequence));
    if (!Object.values(outputs).every(({ data }) => data.every(Number.isFinite))) {
      throw new Error("the scores of the model are not finite numbers, so its weights are broken; export another");
    }
    return outputs;
  };
  const outputs = [];
  for (const sequence of encoded.sequences) outputs.push(await outputsOf(sequence));
  const made = TASKS[model.settings.task].answer(model, item, encoded, outputs, options);
  return options.why ? { ...made, words: await weightsOfWords(model, item, encoded, outputs, outputsOf) } : made;
}

/** Returns the words of a classifier's texts with their weights: the score of the best label, less that without the word. */
async function weightsOfWords(model, item, { sequences }, outputs, outputsOf) {
  const whole = scoresOf(model, outputs);
  const label = whole.indexOf(Math.max(...whole));
  const found = [];
  for (const [{ start, end, field }, rows] of placesOfWords(model, sequences)) {
    const changed = [...outputs];
    for (const [row, positions] of rows) changed[row] = await outputsOf(masked(model, sequences[row], positions));
    const word = textOf(codePoints(item[field]).slice(start, end));
    found.push({ word, start, end, weight: whole[label] - scoresOf(model, changed)[label], field });
  }
  return found;
}

/** Returns the number of tokens of an item, and whether the model ignores some of them. */
export function lengthOf(model, item, { isCut }) {
  const count = (text) => model.tokenizer.tokenize(text).length;
  const countWithMasks = (text) => {
    const parts = text.split(MASK);
    return parts.reduce((sum, part) => sum + count(part), parts.length - 1);
  };
  const counts = Object.values(item).flat().map(WITH_MASKS.includes(model.settings.task) ? countWithMasks : count);
  return { num_tokens: counts.reduce((sum, number) => sum + number), is_cut: Boolean(isCut) };
}

/** Returns the inputs of the network for a sequence, arrays of integers of one row. */
function featuresOf(model, { tokens, segments, positions }) {
  // As in Python, the best places of an answer are chosen among all positions of the longest sequence.
  const length = model.settings.task === "question_answering" ? model.settings.max_seq_length : tokens.length;
  const padded = (values) => Int32Array.from({ length }, (_, place) => values[place] ?? 0);
  const features = {
    input_ids: padded(tokens.map((token) => token.id)),
    input_mask: padded(tokens.map(() => 1)),
    segment_ids: padded(segments),
  };
  if (positions) features.masked_lm_positions = Int32Array.from(positions);
  return features;
}

function checkTopK(model, value) {
  if (value === null || value === undefined) return;
  const { labels, n_best_size: numBest } = model.settings;
  const most = labels?.length ?? numBest ?? model.tokenizer.tokens.length;
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new Error(`top_k is ${JSON.stringify(value)}, but must be a whole number from 1 to ${most}`);
  }
}

function checkThreshold(model, value) {
  if (value === null || value === undefined) return;
  const isOdds = model.settings.task === "question_answering";
  if (typeof value !== "number" || !(isOdds || (value >= 0 && value <= 1))) {
    const needed = isOdds ? "a number" : "a number from 0 to 1";
    throw new Error(`threshold is ${JSON.stringify(value)}, but must be ${needed}`);
  }
}

function checkCoverage(model, value) {
  if (value === null || value === undefined) return;
  const thresholds = model.settings.label_set_thresholds;
  if (!thresholds) {
    throw new Error("coverage needs a model that was trained with calibrate, and this one was not; leave it out");
  }
  if (typeof value !== "number" || !(String(value) in thresholds)) {
    throw new Error(`coverage is ${JSON.stringify(value)}, but must be from 0.5 to 0.99, in steps of 0.01`);
  }
}

function checkWhy(value) {
  if (value === undefined || typeof value === "boolean") return;
  if (value === "gradients") {
    throw new Error('why is "gradients", which an export does not have; give true, or take the model of the run');
  }
  throw new Error(`why is ${JSON.stringify(value)}, but must be true or false`);
}

/** Returns the sequences of a text or a pair: cut (`isCut`), or for doc_stride windows of the first text. */
function sequencesOf(model, first, second) {
  const { max_seq_length: longest, doc_stride: stride } = model.settings;
  const room = longest - (second.length ? 3 : 2);
  const roomOfSecond = Math.max(Math.floor(room / 2), room - first.length);
  if (stride) {
    const kept = second.slice(0, roomOfSecond);
    const left = room - kept.length;
    const starts = windowStarts(first.length, left, Math.min(stride, left));
    const sequences = starts.map((start) => join(model, first.slice(start, start + left), kept));
    return { sequences, isCut: kept.length < second.length };
  }
  if (first.length + second.length <= room) return { sequences: [join(model, first, second)], isCut: false };
  const numSecond = Math.min(second.length, roomOfSecond);
  return { sequences: [join(model, first.slice(0, room - numSecond), second.slice(0, numSecond))], isCut: true };
}

function encodeTexts(model, item, source) {
  const { text, text_pair: pair } = item;
  checkText(model, text, source, pair === undefined ? "text" : "first text");
  // As in training, the second text may be blank.
  if (pair !== undefined && !isBlank(model, pair)) checkText(model, pair, source, "second text");
  const read = (of, field) => withWords(model, tokensOf(model, of, field));
  return sequencesOf(model, read(text, "text"), read(pair ?? "", "text_pair"));
}

function sigmoid(logits) {
  return Array.from(logits, (logit) => 1 / (1 + Math.exp(-logit)));
}

/** Returns the scores of a classifier: their means over the windows of a text. */
function scoresOf(model, outputs) {
  const activation = { classification: softmax, multi_label: sigmoid }[model.settings.task] ?? Array.from;
  const rows = outputs.map(({ logits }) => activation(logits.data));
  return rows[0].map((_, place) => rows.reduce((sum, row) => sum + row[place], 0) / rows.length);
}

/** Returns [label, probability] of all labels, or the most probable ones first. Objects put names of digits first. */
function ranked(model, scores, topK) {
  const pairs = model.settings.labels.map((label, number) => [label, scores[number]]);
  return topK === null ? pairs : pairs.sort((one, other) => other[1] - one[1]).slice(0, topK);
}

const textsOf = (item) => ({ text: item.text, text_pair: item.text_pair ?? null });

function classify(model, item, encoded, outputs, { top_k: topK, coverage }) {
  const scores = scoresOf(model, outputs);
  const pairs = ranked(model, scores, topK);
  const [label] = pairs.reduce((best, pair) => (pair[1] > best[1] ? pair : best));
  const answer = { ...textsOf(item), label, probabilities: Object.fromEntries(pairs) };
  if (coverage === null) return answer;
  const least = model.settings.label_set_thresholds[coverage];
  const likely = ranked(model, scores, scores.length).filter(([, probability], rank) => rank === 0 || probability >= least);
  return { ...answer, label_set: likely.map(([name]) => name) };
}

function predictValue(model, item, encoded, outputs) {
  const [value] = scoresOf(model, outputs);
  return { ...textsOf(item), value };
}

function findLabels(model, item, encoded, outputs, { top_k: topK, threshold }) {
  const scores = scoresOf(model, outputs);
  const labels = model.settings.labels.filter((_, number) => scores[number] >= threshold);
  return { ...textsOf(item), labels, probabilities: Object.fromEntries(ranked(model, scores, topK)) };
}

function encodeChoices(model, { text, choices }, source) {
  checkText(model, text, source);
  if (!Array.isArray(choices) || choices.length < 2) {
    throw new Error(`${source} has no list of choices; give two or more`);
  }
  choices.forEach((choice, number) => checkText(model, choice, source, `choice ${number + 1}`));
  return encodeList(model, { text, choices });
}

/** Returns the sequences of a text and each text of a list. */
function encodeList(model, item) {
  const [[name, text], [listName, texts]] = Object.entries(item);
  const first = tokensOf(model, text, name);
  const found = texts.map((each) => sequencesOf(model, first, tokensOf(model, each, listName)));
  return { sequences: found.flatMap(({ sequences }) => sequences), isCut: found.some(({ isCut }) => isCut) };
}

function choose(model, { text, choices }, encoded, outputs) {
  const probabilities = softmax(outputs.map(({ logits }) => logits.data[0]));
  return { text, choices, index: probabilities.indexOf(Math.max(...probabilities)), probabilities };
}

function encodeQuery(model, { query, texts }, source) {
  checkText(model, query, source, "query");
  if (!Array.isArray(texts) || !texts.length) throw new Error(`${source} has no list of texts; give one or more`);
  texts.forEach((text, number) => checkText(model, text, source, `text ${number + 1}`));
  return encodeList(model, { query, texts });
}

function rank(model, { query, texts }, encoded, outputs, { raw_scores: isRaw }) {
  const logits = outputs.map(({ logits: found }) => found.data[0]);
  const scores = model.settings.activation === "sigmoid" && !isRaw ? sigmoid(logits) : logits;
  const ranked = texts.map((text, index) => ({ index, text, score: scores[index] }));
  return { query, texts: ranked.sort((one, other) => logits[other.index] - logits[one.index]) };
}

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
    const probabilities = softmaxOf(data.subarray(row * size, (row + 1) * size));
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

/** Returns the softmax of a long row. */
function softmaxOf(logits) {
  const most = logits.reduce((one, other) => Math.max(one, other));
  const powers = Float64Array.from(logits, (logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
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

const TASKS = {
  classification: { encode: encodeTexts, answer: classify, options: () => ({ top_k: null, coverage: null, why: false }) },
  regression: { encode: encodeTexts, answer: predictValue, options: () => ({ why: false }) },
  multi_label: { encode: encodeTexts, answer: findLabels, options: () => ({ top_k: null, threshold: 0.5, why: false }) },
  multiple_choice: { encode: encodeChoices, answer: choose, options: () => ({}) },
  rerank: { encode: encodeQuery, answer: rank, options: () => ({ raw_scores: false }) },
  question_answering: {
    encode: encodeQuestion,
    answer: answersOfSpans,
    options: (settings) => ({ top_k: null, ...(settings.version_2_with_negative === false ? {} : { threshold: null }) }),
  },
  token_classification: { encode: encodeWords, answer: answerOfTags, options: () => ({ threshold: 0 }) },
  fill_mask: { encode: encodeMasks, answer: fillMasks, options: () => ({ top_k: null, candidates: null }) },
  next_sentence: { encode: encodeWhole, answer: follows, options: () => ({}) },
  replaced_tokens: { encode: encodeWhole, answer: findReplaced, options: () => ({}) },
  vectors: { encode: encodeText, answer: makeVector, options: () => ({ prefix: null }) },
};
