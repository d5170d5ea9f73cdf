/** What the tasks share in the browser: checks of texts, sequences of tokens, windows. */

import { codePoints } from "./tokenizer.js";

// As in storage/text_files.py: control and zero-width characters, and others without ink.
const INVISIBLE =
  /[\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;

/** Refuses what is not a text, or a text without a visible character. */
export function checkText(model, text, source, what = "text") {
  checkAnyText(model, text, source, what);
  if (isBlank(model, text)) throw new Error(`${source} has no word in its ${what}; give a ${what}`);
}

/** Returns whether a value is a text without a visible character. */
export function isBlank(model, text) {
  const isVisible = (code) => !model.whiteSpace.has(code) && !INVISIBLE.test(String.fromCodePoint(code));
  return typeof text === "string" && !codePoints(text).some(isVisible);
}

/** Refuses what is not a text. */
export function checkAnyText(model, text, source, what) {
  if (typeof text !== "string") throw new Error(`${source} has a ${what} that is not a text; give a text`);
  const codes = codePoints(text);
  const things = what === "text" ? "characters" : `characters in its ${what}`;
  checkLimit(model, "max_chars", codes.length, source, things);
  const place = codes.findIndex((code) => code >= 0xd800 && code <= 0xdfff);
  if (place >= 0) {
    throw new Error(`${source}: character ${place + 1} of its ${what} is half of a surrogate pair; remove it`);
  }
}

export function checkLimit(model, name, number, source, things) {
  const limit = model.limits[name];
  if (number > limit) {
    throw new Error(`${source} has ${number} ${things}, but at most ${limit} are allowed; make it shorter`);
  }
}

/** Returns the tokens of a text, each with the name of its field. */
export function tokensOf(model, text, field) {
  return model.tokenizer.tokenize(text).map((token) => ({ ...token, text: field }));
}

/** Returns the sequence [CLS] A [SEP] (B [SEP]). */
export function join(model, first, second = []) {
  const special = (token) => ({ id: model.tokenizer.id(token), start: null, end: null, text: null });
  const tokens = [special("[CLS]"), ...first, special("[SEP]")];
  const segments = new Array(tokens.length).fill(0);
  if (second.length) {
    tokens.push(...second, special("[SEP]"));
    segments.push(...new Array(second.length + 1).fill(1));
  }
  return { tokens, segments };
}

/** Returns the starts of windows of `room` tokens, until one reaches the end of the text. */
export function windowStarts(numTokens, room, stride) {
  const starts = [0];
  for (let start = stride; start < numTokens - room + stride; start += stride) starts.push(start);
  return starts;
}

/** Returns the softmax of logits. There may be as many as words, too many for arguments of a function. */
export function softmax(logits) {
  const most = logits.reduce((one, other) => Math.max(one, other));
  const powers = Array.from(logits, (logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** Returns the sequences of a text or a pair: cut (`isCut`), or for doc_stride windows of the first text. */
export function sequencesOf(model, first, second) {
  const { max_seq_length: longest, doc_stride: stride } = model.settings;
  const room = longest - (second.length ? 3 : 2);
  // An odd token belongs to the first text, or by the rules of transformers to the longer or else the second one.
  const isOdd = model.tokenizer.isForeign && first.length <= second.length;
  const roomOfSecond = Math.max(Math.floor((room + isOdd) / 2), room - first.length);
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

export function sigmoid(logits) {
  return Array.from(logits, (logit) => 1 / (1 + Math.exp(-logit)));
}

/** Returns the sequences of a text and each text of a list. */
export function encodeList(model, item) {
  const [[name, text], [listName, texts]] = Object.entries(item);
  const first = tokensOf(model, text, name);
  const found = texts.map((each) => sequencesOf(model, first, tokensOf(model, each, listName)));
  return { sequences: found.flatMap(({ sequences }) => sequences), isCut: found.some(({ isCut }) => isCut) };
}
