/** Named entities in the browser: windows of words, tags of words, and entities; see web_answers.js. */

import { checkText, join, softmax, tokensOf } from "./web_sequences.js";
import { codePoints, textOf } from "./tokenizer.js";
import { WordSplitter } from "./web_words.js";

/** Encodes a text: windows of whole words, and for each the words whose tags come from it, with their columns. */
function encodeWords(model, { text }, source) {
  checkText(model, text, source);
  const codes = codePoints(text);
  const spans = model.settings.words === "transformers" ? spansOfTokens(model, text, codes) : model.splitter.split(text);
  if (!spans.length) throw new Error(`${source} has no word in its text; give a text`);
  const room = model.settings.max_seq_length - 2;
  const unknown = { id: model.tokenizer.id("[UNK]"), text: "text" };
  let isCut = false;
  const words = spans.map(([start, end]) => {
    const tokens = tokensOf(model, textOf(codes.slice(start, end)), "text");
    const moved = tokens.map((token) => ({ ...token, start: start + token.start, end: start + token.end }));
    isCut ||= tokens.length > room;
    return moved.length ? moved.slice(0, room) : [{ ...unknown, start, end }];
  });
  const offsets = [0];
  for (const word of words) offsets.push(offsets.at(-1) + word.length);
  const sequences = [];
  const windows = [];
  for (const { left, right, counted } of windowsOf(offsets, room)) {
    sequences.push(join(model, words.slice(left, right).flat()));
    windows.push(counted.map((word) => [word, 1 + offsets[word] - offsets[left]]));
  }
  return { sequences, windows, codes, spans, isCut };
}

/** Returns [start, end] of the words into which the tokenizer splits a text, given its code points, too. */
function spansOfTokens(model, text, codes) {
  const spans = [];
  for (const { id, start, end } of model.tokenizer.tokenize(text)) {
    // A special token of the text may begin with "##", too; a piece of a word never stands at "#".
    const isPiece = model.tokenizer.token(id).startsWith("##") && textOf([codes[start]]) !== "#";
    if (isPiece) spans.at(-1)[1] = end;
    else spans.push([start, end]);
  }
  return spans;
}

/**
 * Returns windows that fit, each beginning half a room after the previous one, and the words with their most context
 * in each. offsets has the number of tokens before each word, and at the end of all.
 */
function windowsOf(offsets, room) {
  const numWords = offsets.length - 1;
  const all = Array.from({ length: numWords }, (_, word) => word);
  if (offsets[numWords] <= room) return [{ left: 0, right: numWords, counted: all }];
  const firstFrom = (number) => offsets.findIndex((offset) => offset >= number);
  const lastUpTo = (number) => offsets.findLastIndex((offset) => offset <= number);
  const windows = [];
  let left = 0;
  while (offsets[numWords] - offsets[left] > room) {
    const right = lastUpTo(offsets[left] + room);
    windows.push({ left, right, counted: [] });
    left = Math.min(right, Math.max(left + 1, firstFrom(offsets[left] + Math.floor(room / 2))));
  }
  windows.push({ left: firstFrom(offsets[numWords] - room), right: numWords, counted: [] });
  const best = new Array(numWords).fill(null);
  for (const window of windows) {
    for (let word = window.left; word < window.right; word++) {
      const context = Math.min(offsets[word] - offsets[window.left], offsets[window.right] - offsets[word + 1]);
      if (!best[word] || context > best[word].context) best[word] = { context, window };
    }
  }
  best.forEach(({ window }, word) => window.counted.push(word));
  return windows.filter(({ counted }) => counted.length);
}

function answerOfTags(model, { text }, { windows, codes, spans }, outputs, { threshold }) {
  const { labels } = model.settings;
  const words = [];
  windows.forEach((window, number) => {
    const { data } = outputs[number].logits; // [1, T, C]
    for (const [word, column] of window) {
      const probabilities = softmax(data.subarray(column * labels.length, (column + 1) * labels.length));
      const probability = Math.max(...probabilities);
      const [start, end] = spans[word];
      const tag = labels[probabilities.indexOf(probability)];
      words[word] = { word: textOf(codes.slice(start, end)), tag, probability, start, end };
    }
  });
  const entities = entitiesOf(labels, words.map(({ tag }) => tag)).map(([type, first, stop]) => {
    const [start, end] = [words[first].start, words[stop - 1].end];
    const probability = Math.min(...words.slice(first, stop).map((word) => word.probability));
    return { text: textOf(codes.slice(start, end)), type, start, end, probability };
  });
  return { text, entities: entities.filter(({ probability }) => probability >= threshold), words };
}

// A tag of BIO, IOB1, IOBES or BILOU.
const TAG = /^(O|[BIELMSU](-.+)?)$/s;

/** Returns the mark and the type of a label, ["B", "PER"]. A label that is not a tag is a type itself, with the mark I. */
function markAndType(labels, label) {
  if (label === "O") return ["O", ""];
  const isTag = TAG.test(label) && (label.includes("-") || labels.every((other) => TAG.test(other)));
  return isTag ? [label[0], label.slice(2)] : ["I", label];
}

/** Returns the types of entities, in the order of their labels. */
function typesOf(labels) {
  const found = labels.map((label) => markAndType(labels, label));
  return [...new Set(found.flatMap(([mark, type]) => (mark === "O" ? [] : [type])))];
}

/** Returns [type, first word, stop] of the entities of the words' tags: to_bio and entities of entities.py. */
function entitiesOf(labels, tags) {
  const spans = [];
  let previous = ["O", ""];
  tags.forEach((tag, place) => {
    const [mark, type] = markAndType(labels, tag);
    const begins = "BSU".includes(mark) || "OELSU".includes(previous[0]) || type !== previous[1];
    if (mark !== "O" && begins) spans.push([type, place, place + 1]);
    else if (mark !== "O") spans.at(-1)[2] = place + 1;
    previous = [mark, type];
  });
  return spans;
}

export const TASKS = {
  token_classification: {
    encode: encodeWords,
    answer: answerOfTags,
    options: () => ({ threshold: 0 }),
    labels: typesOf,
    open: (tables) => ({ splitter: new WordSplitter(tables) }),
  },
};
