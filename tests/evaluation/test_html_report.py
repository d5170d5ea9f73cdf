"""The parts of a report page: escapes, tables, shades and pictures."""

import numpy as np
import pytest
from report_pages import ReportPage

from bert_keras.evaluation.html_report import heat_map, join, page, picture, shortened, table, tag, text_list

EVIL = "<script>alert('x')</script> & \"quotes\""


def page_of(content):
    return ReportPage(page("a run", "what it is", {"Part": content}))


@pytest.mark.parametrize(
    "content",
    [
        tag("p", EVIL),
        join(tag("b", 1), EVIL),
        tag("p", title=EVIL),
        table([EVIL, EVIL], [[EVIL, EVIL]]),
        heat_map(np.ones((2, 2), int), [EVIL, "b"]),
        text_list([([EVIL], [EVIL, None, EVIL])]),
    ],
)
def test_texts_are_escaped(content):
    text = page("a run", "what it is", {"Part": content})
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;quotes&quot;" in text
    assert "script" not in ReportPage(text).tags


def test_titles_and_headings_are_escaped():
    text = page(EVIL, EVIL, {EVIL: tag("p", 1)})
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 5  # the title twice, the lead, the link and the heading


def test_a_page_runs_and_loads_nothing():
    text = page("a run", "what it is", {"Part": tag("p", "x")})
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert not {"script", "link", "iframe", "object"} & set(ReportPage(text).tags)
    assert "url(" not in text
    assert "@import" not in text


def test_numbers_of_a_table():
    content = table(["name", "share", "count", "text"], [["a", 0.12345, 1234567, "1,5"], [7, 1.0, 0, ""]])
    assert page_of(content).tables["Part"] == [
        ["name", "share", "count", "text"],
        ["a", "0.123", "1,234,567", "1,5"],
        ["7", "1.000", "0", ""],
    ]


def test_shades_are_shares_of_the_row():
    content = heat_map(np.array([[3, 1], [0, 0]]), ["x" * 70, "y"])
    assert page_of(content).tables["Part"][1:] == [["x" * 59 + "…", "3", "1"], ["y", "", ""]]
    assert [part.split("%")[0] for part in content.split("230 / ")[1:]] == ["56", "19", "0", "0"]


def test_long_texts_end_with_dots():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"
    [_, text] = page_of(text_list([(["fact"], ["y" * 1000])])).texts["Part"]
    assert text == "y" * 299 + "…"


def test_a_picture_takes_the_colour_of_the_text_and_does_not_change(real_pictures):
    def draw(axes):
        axes.plot([0, 1], [1, 2], color="#2563eb")
        axes.set_title("a < b")

    drawn = picture(draw)
    assert drawn == picture(draw)
    assert drawn.startswith("<figure><svg")
    assert "currentColor" in drawn
    assert "#000000" not in drawn
    assert "a &lt; b" in drawn
