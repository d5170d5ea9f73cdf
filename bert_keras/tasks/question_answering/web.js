/** Question answering in the browser: windows of a context, and the best answers of all windows; see web_answers.js. */

import { checkText, join, softmax, tokensOf, windowStarts } from "./web_sequences.js";
import { codePoints, textOf } from "./tokenizer.js";

// The score of no answer if no window has one, as in the original BERT.
const NO_ANSWER = 1_000_000;
// Only these characters separate the words of a context; a no-break space is part of a word.
const SPACES = new Set([" ", "\t", "\r", "\n", "\u202f"].map((char) => char.codePointAt(0)));

/** Encodes a question with its context: [CLS] question [SEP] window [SEP] for each window. */
function encodeQuestion(model, { question, context }, source) {
  checkText(model, question, source, "question");
  checkText(model, context, source, "context");
  const { max_seq_length: longest, doc_stride: stride, max_query_length: longestQuestion } = model.settings;
  const passage = passageOf(model, context);
  const tokensOfQuestion = tokensOf(model, question, "question");
  const asked = tokensOfQuestion.slice(0, longestQuestion);
  const room = longest - asked.length - 3;
  const numTokens = passage.tokens.length;
  const starts = numTokens ? windowStarts(numTokens, room, Math.min(room, stride)) : [];
  const windows = starts.map((start) => ({ start, length: Math.min(room, numTokens - start) }));
  const best = windowsOfMostContext(windows, numTokens);
  const first = asked.length + 2; // the position in a sequence where the passage starts
  const sequences = windows.map((window, number) => {
    window.isBest = (position) => best[window.start + position - first] === number;
    window.has = (position) => position >= first && position < first + window.length;
    window.token = (position) => window.start + position - first;
    const tokens = passage.tokens.slice(window.start, window.start + window.length);
    return { ...join(model, asked, tokens), segments: segmentsOf(first, window.length) };
  });
  return { sequences, windows, passage, isCut: asked.length < tokensOfQuestion.length };
}

function segmentsOf(numFirst, numTokens) {
  return [...new Array(numFirst).fill(0), ...new Array(numTokens + 1).fill(1)];
}

/** Returns a context with its words (text and start) and tokens (with the index of their word). */
function passageOf(model, context) {
  const codes = codePoints(context);
  const words = [];
  for (let place = 0; place < codes.length; place++) {
    if (SPACES.has(codes[place])) continue;
    const start = place;
    while (place < codes.length && !SPACES.has(codes[place])) place++;
    words.push({ codes: codes.slice(start, place), start });
  }
  let word = -1;
  const tokens = tokensOf(model, context, "context").map((token) => {
    while (word + 1 < words.length && words[word + 1].start <= token.start) word++;
    return { ...token, word };
  });
  return { codes, words, tokens };
}

/** Returns the window with the most context around each token; ties go to the earliest. */
function windowsOfMostContext(windows, numTokens) {
  const best = new Array(numTokens).fill(0);
  const scores = new Array(numTokens).fill(-1);
  windows.forEach(({ start, length }, number) => {
    for (let place = 0; place < length; place++) {
      const score = Math.min(place, length - 1 - place) + 0.01 * length;
      if (score > scores[start + place]) [best[start + place], scores[start + place]] = [number, score];
    }
  });
  return best;
}

function answersOfSpans(model, { question }, encoded, outputs, { top_k: topK, threshold }) {
  const { settings } = model;
  // null: the model of another library does not say it, and has no answer only with a threshold.
  const hasNull = settings.version_2_with_negative ?? threshold !== null;
  const nullThreshold = threshold ?? settings.null_score_diff_threshold;
  const null_ = hasNull ? scoreOfNoAnswer(outputs) : null;
  const found = distinct(rankedSpans(settings, encoded, outputs), null_, textFinder(model, encoded), settings);
  const candidates = withProbabilities(found.length ? found : [{ text: "empty", start: null, end: null, logits: [0, 0] }]);
  const best = candidates.find(({ start }) => start !== null);
  const odds = best ? (null_?.score ?? 0) - best.logits[0] - best.logits[1] : NO_ANSWER;
  const text = hasNull ? (best && odds <= nullThreshold ? best.text : "") : candidates[0].text;
  const isImpossible = !best || (hasNull && !text);
  const chosen = isImpossible ? candidates.find(({ start }) => start === null) : best;
  return {
    question,
    text: isImpossible ? "" : text,
    probability: chosen?.probability ?? 0,
    start: isImpossible ? null : chosen.start,
    end: isImpossible ? null : chosen.end,
    is_impossible: isImpossible,
    null_odds: hasNull ? odds : null,
    null_threshold: hasNull ? nullThreshold : null,
    n_best: candidates
      .slice(0, topK ?? candidates.length)
      .map(({ text, probability, start, end }) => ({ text, probability, start, end })),
  };
}

/** Returns the lowest score of no answer in a window, and the two logits that it sums. */
function scoreOfNoAnswer(outputs) {
  let lowest = { score: NO_ANSWER, logits: [0, 0] };
  for (const { start_logits: starts, end_logits: ends } of outputs) {
    const logits = [starts.data[0], ends.data[0]];
    const score = logits[0] + logits[1];
    if (score < lowest.score) lowest = { score, logits };
  }
  return lowest;
}

/** Returns {window, start, end, logits} of all possible answer spans, the best first. */
function rankedSpans(settings, { windows }, outputs) {
  const spans = [];
  windows.forEach((window, number) => {
    const startLogits = outputs[number].start_logits.data;
    const endLogits = outputs[number].end_logits.data;
    const numPlaces = settings.use_all_places ? endLogits.length : settings.n_best_size;
    const ends = highest(endLogits, numPlaces);
    for (const start of highest(startLogits, numPlaces)) {
      // As in the original BERT, a start needs the most context, but an end does not.
      if (!window.has(start) || !window.isBest(start)) continue;
      for (const end of ends) {
        if (!window.has(end) || start > end || end - start >= settings.max_answer_length) continue;
        spans.push({ window: number, start, end, logits: [startLogits[start], endLogits[end]] });
      }
    }
  });
  const score = ({ logits }) => logits[0] + logits[1];
  return spans.sort((one, other) => score(other) - score(one));
}

/** Returns the places of the highest numbers; the first of equal ones comes first. */
function highest(numbers, count) {
  return [...numbers.keys()].sort((one, other) => numbers[other] - numbers[one]).slice(0, count);
}

/** Returns the best spans with different texts, and no answer at the place of its score, or last. */
function distinct(spans, null_, textOfSpan, settings) {
  const found = [];
  const seen = new Set();
  const waiting = null_ ? [{ text: "", start: null, end: null, logits: null_.logits }] : [];
  for (const span of spans) {
    const isBehind = null_ && null_.logits[0] + null_.logits[1] > span.logits[0] + span.logits[1];
    if (waiting.length && isBehind && found.length < settings.n_best_size) found.push(waiting.pop());
    if (found.length >= settings.n_best_size) break;
    const place = textOfSpan(span);
    if (seen.has(place.text)) continue;
    seen.add(place.text);
    found.push({ ...place, logits: span.logits });
  }
  return [...found, ...waiting];
}

/** Adds the softmax of the summed logits. */
function withProbabilities(found) {
  const probabilities = softmax(found.map(({ logits }) => logits[0] + logits[1]));
  return found.map((each, number) => ({ ...each, probability: probabilities[number] }));
}

/** Returns a function from a span to its {text, start, end} in the context. */
function textFinder(model, { sequences, windows, passage }) {
  const byOffsets = ({ window, start, end }) => {
    const [first, last] = [start, end].map((position) => passage.tokens[windows[window].token(position)]);
    return { text: textOf(passage.codes.slice(first.start, last.end)), start: first.start, end: last.end };
  };
  const byProjection = ({ window, start, end }) => {
    const [first, last] = [start, end].map((position) => passage.tokens[windows[window].token(position)].word);
    const tokens = sequences[window].tokens.slice(start, end + 1).map(({ id }) => model.tokenizer.token(id));
    const pieces = tokens.join(" ").replaceAll(" ##", "").replaceAll("##", "").split(" ").filter(Boolean).join(" ");
    const words = passage.words.slice(first, last + 1);
    const original = words.flatMap((word, number) => (number ? [SPACE, ...word.codes] : word.codes));
    const [from, to] = project(pieces, original, model.tokenizer.basicTokenizer) ?? [0, original.length];
    const inContext = (place) => placeInContext(words, place);
    return { text: textOf(original.slice(from, to)), start: inContext(from), end: inContext(to - 1) + 1 };
  };
  const find = model.settings.answer_text === "offsets" ? byOffsets : byProjection;
  const known = new Map();
  return (span) => {
    const key = `${span.window} ${span.start} ${span.end}`;
    if (!known.has(key)) known.set(key, find(span));
    return known.get(key);
  };
}

const SPACE = " ".codePointAt(0);

/** Returns the place in the context of a character of words that are joined by single spaces. */
function placeInContext(words, place) {
  let word = 0;
  while (place > words[word].codes.length) place -= words[word++].codes.length + 1;
  return words[word].start + place;
}

/**
 * Finds the text of some tokens in their words, which have the original case, accents and spaces. Returns its start
 * and end in the words, an array of code points; null if it is not found or the tokenizer changes their length.
 */
function project(pieces, original, basicTokenizer) {
  const words = [...basicTokenizer.words(original)].map(({ codes }) => textOf(codes));
  const tokenized = words.join(" ");
  const unit = tokenized.indexOf(pieces);
  if (unit < 0 || !pieces) return null;
  const numLetters = (text) => codePoints(text).filter((code) => code !== SPACE).length;
  const places = [...original.keys()].filter((place) => original[place] !== SPACE);
  if (places.length !== numLetters(tokenized)) return null;
  const first = numLetters(tokenized.slice(0, unit));
  return [places[first], places[first + numLetters(pieces) - 1] + 1];
}

export const TASKS = {
  question_answering: {
    encode: encodeQuestion,
    answer: answersOfSpans,
    options: (settings) => ({ top_k: null, ...(settings.version_2_with_negative === false ? {} : { threshold: null }) }),
    // As in Python, the best places of an answer are chosen among all positions of the longest sequence.
    readsPadding: true,
    hasOdds: true,
  },
};
