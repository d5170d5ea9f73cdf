"""A reference implementation of SQuAD's windows and answers, written for clarity and not for speed."""

import math


def words_as_described(text):
    """Splits text into words, character by character; also returns the word index of each character."""
    words, word_of_char, was_space = [], [], True
    for char in text:
        is_space = char in " \t\r\n" or ord(char) == 0x202F
        if not is_space:
            if was_space:
                words.append("")
            words[-1] += char
        was_space = is_space
        word_of_char.append(len(words) - 1)
    return words, word_of_char


def windows_as_described(num_pieces, room, doc_stride):
    windows, start = [], 0
    while start < num_pieces:
        length = min(num_pieces - start, room)
        windows.append((start, length))
        if start + length == num_pieces:
            break
        start += min(length, doc_stride)
    return windows


def best_window_as_described(windows, piece):
    best, best_score = None, None
    for index, (start, length) in enumerate(windows):
        left, right = piece - start, start + length - 1 - piece
        if left < 0 or right < 0:
            continue
        score = min(left, right) + 0.01 * length
        if best_score is None or score > best_score:
            best, best_score = index, score
    return best


def rows_as_described(example, tokenizer, max_seq_length, doc_stride, max_query_length):
    """Returns a question's windows: (tokens, word of each position or -1, whether a position has its most context)."""
    question = tokenizer.tokenize(example.question)[:max_query_length]
    pieces, word_of_piece, first_piece = [], [], []
    for index, word in enumerate(words_as_described(example.passage.text)[0]):
        first_piece.append(len(pieces))
        for piece in tokenizer.tokenize(word):
            pieces.append(piece)
            word_of_piece.append(index)
    windows = windows_as_described(len(pieces), max_seq_length - len(question) - 3, doc_stride)
    rows = []
    for index, (start, length) in enumerate(windows):
        tokens = ["[CLS]", *question, "[SEP]", *pieces[start : start + length], "[SEP]"]
        before = [-1] * (len(question) + 2)
        words = [*before, *word_of_piece[start : start + length], -1]
        has_context = [False] * len(before)
        has_context += [best_window_as_described(windows, start + place) == index for place in range(length)]
        rows.append((tokens, words, [*has_context, False], start))
    return rows, pieces, first_piece


def span_as_described(example, pieces, first_piece, tokenizer):
    """Returns the first and last token of an answer."""
    first = first_piece[example.start_position]
    last = [*first_piece, len(pieces)][example.end_position + 1] - 1
    answer = " ".join(tokenizer.tokenize(example.answer_text))
    for start in range(first, last + 1):
        for end in range(last, start - 1, -1):
            if " ".join(pieces[start : end + 1]) == answer:
                return start, end
    return first, last


def text_as_described(piece_text, original, basic_tokenizer):
    """Returns the text of an answer in its words, by mapping every character."""
    tokenized = " ".join(basic_tokenizer.tokenize(original))
    start = tokenized.find(piece_text)
    if start == -1:
        return original
    end = start + len(piece_text) - 1
    in_original = [place for place, char in enumerate(original) if char != " "]
    in_tokenized = [place for place, char in enumerate(tokenized) if char != " "]
    if len(in_original) != len(in_tokenized) or start not in in_tokenized or end not in in_tokenized:
        return original
    return original[in_original[in_tokenized.index(start)] : in_original[in_tokenized.index(end)] + 1]


def best_as_described(logits, count):
    return sorted(range(len(logits)), key=lambda place: logits[place], reverse=True)[:count]


def answer_as_described(example, rows, start_logits, end_logits, basic_tokenizer, settings):
    """Returns (answer, [(text, probability, start_logit, end_logit)], null odds) of a question."""
    spans, null = [], (1000000.0, 0.0, 0.0)
    for row, starts, ends in zip(rows, start_logits, end_logits, strict=True):
        tokens, words, has_context, _ = row
        if starts[0] + ends[0] < null[0]:
            null = (starts[0] + ends[0], starts[0], ends[0])
        for start in best_as_described(starts, settings.n_best_size):
            for end in best_as_described(ends, settings.n_best_size):
                if max(start, end) >= len(tokens) or words[start] < 0 or words[end] < 0 or not has_context[start]:
                    continue
                if start <= end < start + settings.max_answer_length:
                    spans.append((row, start, end, starts[start], ends[end]))
    if settings.version_2_with_negative:
        spans.append((None, 0, 0, null[1], null[2]))
    spans.sort(key=lambda span: span[3] + span[4], reverse=True)
    chosen = {}
    for row, start, end, *logits in spans:
        if len(chosen) >= settings.n_best_size:
            break
        text = ""
        if row is not None:
            joined = " ".join(row[0][start : end + 1]).replace(" ##", "").replace("##", "")
            original = " ".join(words_as_described(example.passage.text)[0][row[1][start] : row[1][end] + 1])
            text = text_as_described(" ".join(joined.split()), original, basic_tokenizer)
        chosen.setdefault(text, logits)
    if settings.version_2_with_negative:
        chosen.setdefault("", list(null[1:]))
    is_empty = not chosen
    chosen = chosen or {"empty": [0.0, 0.0]}
    highest = max(sum(logits) for logits in chosen.values())
    total = sum(math.exp(sum(logits) - highest) for logits in chosen.values())
    entries = [(text, math.exp(sum(logits) - highest) / total, *logits) for text, logits in chosen.items()]
    if not settings.version_2_with_negative:
        return entries[0][0], entries, None, is_empty
    best = next((entry for entry in entries if entry[0]), None)
    if best is None:
        return "", entries, 1000000.0, True
    odds = null[0] - best[2] - best[3]
    return "" if odds > settings.null_score_diff_threshold else best[0], entries, odds, False
