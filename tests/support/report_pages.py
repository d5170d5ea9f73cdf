"""Reads a report.html as a reader sees it."""

import html.parser


class ReportPage(html.parser.HTMLParser):
    """The sections of a page by heading: the tables as lists of rows, and the texts of all paragraphs and commands.

    Attributes:
        tables: by heading, the cells of each row, with its first column.
        texts: by heading, the texts of the elements p, pre and b in their order.
        tags: names of all elements.
    """

    def __init__(self, text):
        super().__init__()
        self.tables, self.texts, self.tags, self.text = {}, {}, [], text
        self._open, self._heading = [], None
        self.feed(text)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "meta":
            return
        self._open.append((tag, []))
        if tag == "tr":
            self.tables[self._heading].append([])

    def handle_endtag(self, tag):
        name, parts = self._open.pop()
        assert name == tag, (name, tag)
        text = "".join(parts)
        if self._open:
            self._open[-1][1].append(text)
        if tag == "h2":
            self._heading = text
            self.tables[text], self.texts[text] = [], []
        elif tag in ("td", "th"):
            self.tables[self._heading][-1].append(text)
        elif tag in ("p", "pre", "b") and self._heading:
            self.texts[self._heading].append(text)

    def handle_data(self, data):
        if self._open:
            self._open[-1][1].append(data)


def page_in(folder):
    """Returns the page of a run folder."""
    return ReportPage((folder / "report.html").read_text(encoding="utf-8"))
