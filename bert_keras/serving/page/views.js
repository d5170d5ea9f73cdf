// The answer to each task: a function of the answers and the request that returns elements.

import { barOf, make, marked, percent, share, slicer } from "./dom.js";
import { plainValues } from "./tasks.js";

const MOST_BARS = 12;

/** Task -> function of ({ answers, items, model, fill, tokens }). `fill` puts a text into the form. */
export const VIEWS = {
  classification: ({ answers: [{ label, probabilities }], model }) => [
    make("p", { className: "result", dir: "auto" }, label),
    bars(ranked(model, probabilities), ([name]) => name === label),
  ],
  regression: ({ answers: [{ value }] }) => [make("p", { className: "result" }, String(Number(value.toPrecision(6))))],
  multi_label: ({ answers: [{ probabilities }], model }) => {
    const place = make("div");
    const draw = (threshold) => {
      const applying = ranked(model, probabilities).filter(([, probability]) => probability >= threshold);
      const names = applying.map(([name]) => name).join(", ");
      place.replaceChildren(
        make("p", { className: "result", dir: "auto" }, names || "No label"),
        bars(ranked(model, probabilities), ([, probability]) => probability >= threshold),
      );
    };
    return [slider("Lowest probability of a label that applies", 0, 1, 0.5, draw), place];
  },
  multiple_choice: ({ answers: [{ choices, index, probabilities }] }) => [
    make("p", { className: "result", dir: "auto" }, choices[index]),
    bars(choices.map((choice, number) => [choice, probabilities[number], number]), ([, , number]) => number === index),
  ],
  rerank: ({ answers: [{ texts }] }) => {
    const areShares = texts.every(({ score }) => score >= 0 && score <= 1);
    const shareOf = (score) => (areShares ? score : 1 / (1 + Math.exp(-score)));
    const entries = texts.map(({ text, score }) => [text, shareOf(score), score]);
    return [bars(entries, (entry) => entry === entries[0], ([, , score]) => score.toFixed(4))];
  },
  next_sentence: ({ answers: [{ probability }] }) => [
    make("p", { className: "result" }, probability >= 0.5 ? "Follows" : "Does not follow"),
    bars([["follows", probability], ["does not follow", 1 - probability]], ([, value]) => value >= 0.5),
  ],
  replaced_tokens: ({ answers: [{ tokens }] }) => [
    bars(tokens.map(({ token, probability }) => [token, probability]), ([, probability]) => probability >= 0.5),
  ],
  question_answering: answerView,
  token_classification: entityView,
  fill_mask: maskView,
  score: scoreView,
  vectors: similarityView,
};

/** The view of a task that is not in the table: the values of the answer, and bars if it has probabilities. */
export function anyView({ answers: [answer], model }) {
  const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : value);
  const [first, ...others] = Object.entries(plainValues(model, answer)).map(([name, value]) => [name, shown(value)]);
  return [
    ...(first ? [make("p", { className: "result", dir: "auto" }, first[1])] : []),
    ...(answer.probabilities ? [bars(ranked(model, answer.probabilities), ([name]) => name === first?.[1])] : []),
    ...others.map(([name, value]) => make("p", { dir: "auto" }, `${name}: ${value}`)),
  ];
}

/** Returns a warning if the model ignored a part of a text. */
export function cutsOf({ max_seq_length: longest }, answers) {
  const cut = answers.filter((answer) => answer.is_cut);
  if (!cut.length) return [];
  const which = answers.length > 1 ? `${cut.length} of ${answers.length} texts were` : "A text was";
  const most = Math.max(...cut.map((answer) => answer.num_tokens));
  const sentence = `${which} cut: the input has ${most} tokens, and the model reads at most ${longest} at a time.`;
  return [make("p", { className: "error", role: "note" }, sentence)];
}

/** Returns [label, probability], the most probable first. In objects of JavaScript, names of digits lose their place. */
export function ranked({ labels }, probabilities) {
  const given = labels.filter((label) => label in probabilities);
  return given.map((label) => [label, probabilities[label]]).sort((one, other) => other[1] - one[1]);
}

/** Returns a list of names with bars; long lists show their rest on a button. `shown` gives the text of a value. */
function bars(entries, isChosen, shown = ([, value]) => percent(value)) {
  const row = (entry) =>
    make("li", { className: isChosen(entry) ? "bar chosen" : "bar" }, barOf(entry[0], shown(entry), entry[1]));
  const list = make("ul", { className: "bars" }, entries.slice(0, MOST_BARS).map(row));
  if (entries.length <= MOST_BARS) return list;
  const showAll = () => {
    list.append(...entries.slice(MOST_BARS).map(row));
    button.remove();
  };
  const button = make("button", { type: "button", className: "quiet", onclick: showAll }, `Show all ${entries.length}`);
  return make("div", {}, list, button);
}

/** Returns a labelled slider that calls `draw(value)` now and when it moves. */
function slider(name, min, max, value, draw) {
  const input = make("input", { type: "range", min, max, step: (max - min) / 200, value });
  const output = make("output");
  const update = () => {
    output.value = Number(input.value).toFixed(2);
    input.setAttribute("aria-valuetext", output.value);
    draw(Number(input.value));
  };
  input.addEventListener("input", update);
  update();
  return make("label", { className: "slider" }, make("span", {}, name), input, output);
}

function answerView({ answers: [answer], items: [{ context }] }) {
  const place = make("div");
  const spans = answer.n_best.filter(({ start }) => start !== null);
  const draw = (threshold) => {
    const hasAnswer = spans.length > 0 && (answer.null_odds === null || answer.null_odds <= threshold);
    const shown = hasAnswer ? spans.slice(0, 1) : [];
    place.replaceChildren(
      make("p", { className: "result", dir: "auto" }, hasAnswer ? spans[0].text : "The text has no answer"),
      marked(context, shown, (_, words) => make("mark", { className: "found" }, words)),
    );
  };
  const elements = [];
  if (answer.null_odds === null) draw(0);
  else {
    const reach = Math.ceil(2 * Math.max(Math.abs(answer.null_odds), Math.abs(answer.null_threshold), 5));
    const odds = `Threshold for no answer (its score here: ${answer.null_odds.toFixed(2)})`;
    elements.push(slider(odds, -reach, reach, answer.null_threshold, draw));
  }
  const others = answer.n_best.slice(0, 5).map(({ text, probability }) => [text || "(no answer)", probability]);
  return [place, ...elements, make("h3", {}, "Best answers"), bars(others, () => false)];
}

function entityView({ answers: [{ text, entities }], model }) {
  const types = [...new Set([...(model.labels ?? []), ...entities.map(({ type }) => type)])];
  const colour = (type) => `kind-${types.indexOf(type) % 8}`;
  const place = make("div");
  const draw = (threshold) => {
    const shown = entities.filter(({ probability }) => probability >= threshold);
    const counts = types.map((type) => shown.filter((entity) => entity.type === type).length);
    const legend = types.map((type, number) =>
      make("li", {}, make("span", { className: `swatch ${colour(type)}` }), `${type} ${counts[number]}`),
    );
    place.replaceChildren(
      make("ul", { className: "legend", ariaLabel: "Types and how often they were found" }, legend),
      marked(text, shown, ({ type, probability }, words) =>
        make(
          "mark",
          { className: `entity ${colour(type)}`, title: percent(probability) },
          words,
          make("span", { className: "kind" }, type),
        ),
      ),
    );
    if (!shown.length) place.append(make("p", { className: "muted" }, "The model found nothing in this text."));
  };
  const chooser = slider("Lowest probability to show", 0, 1, 0, draw);
  return [place, chooser];
}

function maskView({ answers: [{ masks, best }], fill }) {
  const columns = masks.map((guesses, number) => {
    const rows = guesses.map(({ token, probability, sentence }) => {
      const use = { type: "button", className: "bar guess", onclick: () => fill("text", sentence) };
      return make("li", {}, make("button", use, barOf(token, percent(probability), probability)));
    });
    const title = masks.length > 1 ? [make("h3", {}, `[MASK] ${number + 1} of ${masks.length}`)] : [];
    return make("div", {}, ...title, make("ol", { className: "bars" }, rows));
  });
  const elements = [make("div", { className: "columns" }, columns)];
  if (masks.length > 1) elements.push(make("p", { className: "text", dir: "auto" }, make("strong", {}, "All filled: "), best));
  return elements;
}

/** Colours each word by its log-probability. The tokenizer gives the places of the tokens in the sentence. */
async function scoreView({ answers, items, tokens }) {
  const best = Math.min(...answers.map(({ perplexity }) => perplexity));
  const cards = [];
  for (const [number, { text, tokens: scores, perplexity, log_probability: total }] of answers.entries()) {
    const [sequence] = await tokens(items[number]);
    const places = sequence.tokens.filter(({ text: field }) => field !== null);
    const spans = places.map(({ start, end }, index) => ({ start, end, score: scores[index].log_probability }));
    const isBest = answers.length > 1 && perplexity === best;
    cards.push(
      make(
        "li",
        { className: isBest ? "scored chosen" : "scored" },
        marked(text, joined(spans), ({ score }, words) =>
          share(make("mark", { className: "word", title: `log-probability ${score.toFixed(2)}` }, words), -score / 12),
        ),
        make(
          "p",
          { className: "muted" },
          `perplexity ${perplexity.toPrecision(4)}, log-probability ${total.toFixed(2)}`,
          isBest ? ", the most natural of these" : "",
        ),
      ),
    );
  }
  const key = [0, 3, 6, 9, 12].map((value) => share(make("mark", { className: "word" }, value ? `−${value}` : "0"), value / 12));
  const legend = make("p", { className: "muted key" }, "Log-probability of a word: ", ...key, " (less natural)");
  return [make("ol", { className: "scores" }, cards), legend];
}

/** Joins tokens of one character, which share its place, and adds up their scores. */
function joined(spans) {
  const found = [];
  for (const span of spans) {
    const last = found.at(-1);
    if (last && span.start < last.end) last.score += span.score;
    else found.push({ ...span });
  }
  return found;
}

function similarityView({ answers }) {
  const vectors = answers.map(({ vector }) => {
    const length = Math.hypot(...vector) || 1;
    return vector.map((value) => value / length);
  });
  const cosine = (one, other) => one.reduce((sum, value, index) => sum + value * other[index], 0);
  const short = (text) => (slicer(text)(0, 61) === text ? text : `${slicer(text)(0, 60)}…`);
  const head = make("tr", {}, make("td"), ...answers.map((_, number) => make("th", { scope: "col" }, `${number + 1}`)));
  const rows = answers.map(({ text }, row) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", dir: "auto", title: text }, `${row + 1}. ${short(text)}`),
      ...vectors.map((other) => {
        const value = cosine(vectors[row], other);
        return share(make("td", { className: "cosine" }, value.toFixed(2)), value);
      }),
    ),
  );
  const table = make("table", {}, make("caption", {}, "Cosine of each pair"), make("thead", {}, head), make("tbody", {}, rows));
  return [make("div", { className: "wide", tabIndex: 0, role: "region", ariaLabel: "Cosine of each pair" }, table)];
}
