import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.kit.html_text import MOST_LINKS, text_of


def said(html: str, base_url: str | None = None) -> str:
    return text_of(html, base_url=base_url).text


def test_a_page_has_its_title_and_its_text() -> None:
    page = text_of("<!doctype html><title>\n A &amp; B </title><body><h1>Hi</h1><p>One\n two.")

    assert page.title == "A & B"
    assert page.text == "# Hi\n\nOne two."


def test_only_the_first_title_counts() -> None:
    page = text_of("<title>first</title><svg><title>second</title></svg>text")

    assert (page.title, page.text) == ("first", "text")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p>\n<p>b</p>", "a\n\nb"),
        ("<p>a<p>b", "a\n\nb"),
        ("<div>a</div><div><div>b</div></div>", "a\nb"),
        ("a<br>b<br/><br>c", "a\nb\n\nc"),
        ("<h2>a</h2>b<h3></h3><p>c", "## a\n\nb\n\nc"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ol><li>a<ul><li>x</ul><li>b</ol>", "1. a\n  - x\n2. b"),
        ("<ul><li><p>a</p></li><li></li><li>b</li></ul>", "- a\n\n- b"),
        ("<li>a<li>b", "- a\n- b"),
        ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\nb\nc\nd"),
        ("<blockquote>a</blockquote>b", "a\n\nb"),
        ("<select><option>a<option>b</select>", "a\nb"),
        ("x<hr>y", "x\n\ny"),
    ],
)
def test_what_stands_on_lines_of_its_own_stays_there(html: str, text: str) -> None:
    assert said(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
        ("<table><tr><td><p>1</p></td><td><p>2</p></td></tr></table>", "1 | 2"),
        ("<table><tr><td>1</td><td></td><td>3</td></tr></table>x", "1 | | 3\n\nx"),
        ("<table><tr><td>a<td><tr><td><td>b</table>", "a |\n| b"),
        ("<table><tr><td>a<p>b</p></td><td>c</td></tr></table>", "a\n\nb | c"),
    ],
)
def test_a_row_of_a_table_is_one_line(html: str, text: str) -> None:
    assert said(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a \n\t b", "a b"),
        ("<b>a</b> <i>b</i>", "a b"),
        ("<b>a</b><i>b</i>", "ab"),
        ("<b>a </b> <i> b</i>", "a b"),
        ("a&nbsp;b", "a b"),
        (" <p> a </p> ", "a"),
        ("", ""),
        ("a<img alt='a &amp; b'>b", "aa & bb"),
    ],
)
def test_whitespace_only_says_that_words_end(html: str, text: str) -> None:
    assert said(html) == text


def test_preformatted_text_stays_as_it_is() -> None:
    html = "a<pre>\n  if x:\n\n\n    <b>y</b> &lt; 1<br>z\n</pre>b  c"

    assert said(html) == "a\n\n  if x:\n\n\n    y < 1\nz\n\nb c"


def test_preformatted_text_in_preformatted_text_comes_once() -> None:
    assert said("<pre>a<pre>b</pre>c</pre>d") == "a\nbc\n\nd"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>if (a < b) '</p>'</script>",
        "<SCRIPT>x</sCript >",
        "<style>x</style>",
        "<template><p>x</p></template>",
        "<iframe><p>x</iframe>",
        "<svg><text>x</text></svg>",
        "<div hidden>x<div>x</div>x</div>",
        "<p hidden>x",
        "<span aria-hidden=true>x</span>",
        "<span style='DISPLAY : none !important'>x</span>",
        "<b style='visibility:hidden'>x</b>",
        "<dialog>x</dialog>",
        "<ul hidden><li>x<ol><li>x</ul>",
        "<!-- x > x -->",
        "<!-->",
        "<!doctype x><?x?><![CDATA[x]]>",
        "</ x>",
        "<img hidden alt=x>",
        "<script src=x />",
    ],
)
def test_what_nobody_sees_is_no_text(hidden: str) -> None:
    assert said(f"a {hidden} <p>b</p>").split() == ["a", "b"]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("1 < 2 & 3 > 2 <3", "1 < 2 & 3 > 2 <3"),
        ("a</b></div></p>b", "ab"),
        ("<b><i>a</b>b</i>c", "abc"),
        ("a<!-- b", "a"),
        ("a<b", "a"),
        ("a<script>b", "a"),
        ('<a href="x>y</a> z', "y z"),
        ("<p class=a=b c d='e'/>x", "x"),
        ("<a \"'=>x", "x"),
        ("&#" + "1" * 5000 + ";&#xffffffff;&#0;&bogus;&amp", "\ufffd\ufffd\ufffd&bogus;&"),
        ("<div hidden>a</p></div>b", "b"),
        ("<textarea><b>a</b></textarea>", "<b>a</b>"),
        ("\0\ud83d<\0>", "\0\ud83d<\0>"),
    ],
)
def test_a_broken_page_is_read_as_far_as_it_goes(html: str, text: str) -> None:
    assert said(html) == text


def test_links_are_followed_by_their_whole_address_once() -> None:
    html = """<a href="/x?a=1&amp;b=2#c">one</a>, <a href=y> two </a>. <a href=/x?a=1&b=2>again</a>
        <a href=#top>top</a> <a href="javascript:x()">js</a> <a href=mailto:a@b.c>mail</a>
        <a href=/empty></a> <a href="http://[">broken</a> <a>none</a>"""

    assert said(html, "https://e.org/d/") == (
        "one (https://e.org/x?a=1&b=2), two (https://e.org/d/y) . again top js mail broken none"
    )
    assert "http" not in said(html)


def test_a_base_in_the_page_says_where_links_lead() -> None:
    assert said("<base href=/b/><a href=c>x</a>", "https://e.org/a/") == "x (https://e.org/b/c)"


def test_the_addresses_of_links_are_bounded() -> None:
    html = "".join(f"<a href=/{number}>x</a> " for number in range(MOST_LINKS + 10))

    assert said(html, "https://e.org").count("https://") == MOST_LINKS
    assert said(f"<a href=/{'x' * 5000}>x</a>", "https://e.org") == "x"


HOSTILE = [
    *("<!--", "<a ", "</a", "<!x", "<?", "<![CDATA[", "<script>", "<script/>", "</script", "<"),
    *("<div>", "<div></span>", "<ul><li>x", '<a b="', "<a b='\"", "<a = ", "<a   ", "&#1", "&a"),
    *("<pre>a", "<tr><td>x<td>", "<p>", "</p>", "<a href=a>b</a>", "<title>", "<br>", "<p hidden>"),
    *("<ol><li>1</ol>", "<b>x<i>", "<table><tr><td>", "<h1>", "<textarea>", "<svg/>", "<a\n=\n"),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_page_of_one_thing_over_and_over_takes_a_time_that_grows_as_it_does(piece: str) -> None:
    page = piece * (60_000 // len(piece))

    began = time.perf_counter()
    text = said(page, f"https://e.org/{'x' * 500}")
    took = time.perf_counter() - began

    # An instant; what looks at each character again for each tag takes minutes.
    assert took < 5
    assert len(text) < 10 * len(page)


def test_an_end_that_is_not_there_is_looked_for_once() -> None:
    began = time.perf_counter()
    text = said("<script/>" * 50_000)
    took = time.perf_counter() - began

    assert (text, took < 8) == ("", True)


def test_a_page_may_be_nested_a_hundred_thousand_times() -> None:
    depth = 100_000

    assert said("<div>" * depth + "deep" + "</div>" * depth + "end") == "deep\nend"


MARKUP = st.sampled_from(
    [
        *("<", ">", "/", "=", '"', "'", "&", ";", "!", "-", "--", "#", "x", " ", "\n", "hidden"),
        *("<p>", "</p>", "<ul>", "<li>", "</ul>", "<pre>", "</pre>", "<a href=x>", "</a>", "<!--"),
        *("<table>", "<tr>", "<td>", "</table>", "<div hidden>", "</div>", "<script>", "</script>"),
        *("<h1>", "</h1>", "<br>", "<title>", "</title>", "<svg>", "</svg>", "&amp;", "&#65;"),
    ]
)


@given(st.lists(MARKUP, max_size=40).map("".join))
def test_no_page_makes_it_fail(html: str) -> None:
    page = text_of(html, base_url="https://e.org/")

    assert page.title == " ".join(page.title.split())


@given(st.text(st.characters(exclude_characters="<&", exclude_categories=["Cs"]), max_size=50))
def test_plain_text_loses_nothing_but_whitespace(text: str) -> None:
    assert said(text).split() == text.split()
