"""The text of a web page, as a reader sees it, for a model to read.

Whatever a page is, reading it takes a time that grows as the page does: what is open is kept in a
list, and an end of what is not open is passed over at once.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from .html_lines import Lines
from .html_tags import Start, tags_of, unescaped


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says."""

    title: str
    """One line; empty where the page names none."""
    text: str
    """Its visible text; headings, paragraphs, items and rows of tables each on their own lines."""


MOST_LINKS = 1000
"""How many links of a page are shown with their address."""

MOST_INDENTS = 6
"""How many times an item of a list in a list is indented."""

LONGEST_LINK = 1000
"""How many characters an address may have that is shown."""


def text_of(html: str, *, base_url: str | None = None) -> Page:
    """Return the title and the visible text of a page; never fails, whatever the page is.

    Headings begin with `#`, items of lists with `-` or their number, and `pre` stays as it is.

    Args:
        html: The page.
        base_url: Where the page comes from. When it is given, a link is followed by its whole
            address in brackets, where that was not shown before.
    """
    reader = _Reader(base_url)
    for token in tags_of(html):
        if isinstance(token, str):
            reader.text(token)
        elif isinstance(token, Start):
            reader.start(token.name, token.attributes)
        else:
            reader.end(token.name)
    return reader.page()


_VOID = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    }
)
"""What has no end."""

_UNSEEN = frozenset(
    {
        *("script", "style", "template", "title", "iframe", "noembed", "noframes", "svg"),
        *("canvas", "audio", "video", "datalist"),
    }
)

_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}

_PARAGRAPHS = (
    *("p", "dl", "table", "blockquote", "pre", "hr", "section", "article", "fieldset", "figure"),
    *_HEADINGS,
)
_ROWS = (
    *("div", "li", "tr", "dt", "dd", "option", "caption", "figcaption", "summary", "address"),
    *("legend", "header", "footer", "nav", "main", "aside", "form", "details", "textarea"),
)
_PARTS = dict.fromkeys(_PARAGRAPHS, 2) | dict.fromkeys(_ROWS, 1)
"""How many line ends stand before and after an element, at least."""

_ENDS = dict.fromkeys([*_PARTS, "ul", "ol"], frozenset({"p"})) | {
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "tr": frozenset({"td", "th", "tr", "p"}),
    "option": frozenset({"option"}),
    "a": frozenset({"a"}),
}
"""Which elements end, though nobody says so, when another one begins in them."""


def _is_unseen(name: str, attributes: Mapping[str, str]) -> bool:
    if name in _UNSEEN or "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if name == "dialog":
        return "open" not in attributes
    style = "".join(attributes.get("style", "").lower().split())
    return "display:none" in style or "visibility:hidden" in style


class _Reader:
    """Takes the tags and words of a page, one after the other."""

    def __init__(self, base_url: str | None) -> None:
        self._base = base_url
        self._title = ""
        self._lines = Lines()
        self._open: list[str] = []
        # How many elements of a name are open, so that an end of none is passed over at once.
        self._counts = Counter[str]()
        self._unseen_from = 0
        """How many elements are open when the outermost unseen one is; 0 where all is seen."""
        self._pre: list[str] | None = None
        self._lists: list[int] = []
        """The number that the next item gets in each open list; 0 for those without numbers."""
        self._cells = 0
        self._link, self._link_from = "", 0
        self._shown: set[str] = set()

    def page(self) -> Page:
        while self._open:
            self._pop()
        return Page(self._title, str(self._lines))

    def text(self, text: str) -> None:
        if self._open and self._open[-1] == "title":
            self._title = self._title or " ".join(text.split())[:300]
        elif self._unseen_from:
            return
        elif self._pre is not None:
            self._pre.append(text)
        else:
            self._lines.words(text)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        ended = _ENDS.get(name, frozenset())
        while self._open and self._open[-1] in ended:
            self._pop()
        if name not in _VOID:
            self._open.append(name)
            self._counts[name] += 1
        if not self._unseen_from and _is_unseen(name, attributes):
            self._unseen_from = len(self._open) if name not in _VOID else 0
        elif not self._unseen_from and self._pre is not None:
            self._pre.append("\n" if name in _PARTS or name == "br" else "")
        elif not self._unseen_from:
            self._layout(name)
            self._say(name, attributes)

    def end(self, name: str) -> None:
        if not self._counts[name]:
            return
        while self._pop() != name:
            pass

    def _pop(self) -> str:
        depth, name = len(self._open), self._open.pop()
        self._counts[name] -= 1
        if not self._unseen_from:
            self._finish(name)
        elif depth == self._unseen_from:
            self._unseen_from = 0
        return name

    def _layout(self, name: str) -> None:
        parts = _PARTS.get(name, 0)
        if name in _HEADINGS:
            self._lines.enter(_HEADINGS[name], parts)
        elif name == "li":
            self._lines.enter(self._bullet(), parts)
        elif name == "tr":
            self._lines.enter("", parts)
            self._cells = 0
        elif name == "br":
            self._lines.line_end()
        else:
            self._lines.part(parts)
            self._pre = [] if name == "pre" else None

    def _say(self, name: str, attributes: Mapping[str, str]) -> None:
        match name:
            case "ul" | "ol":
                self._lines.part(1 if self._lists else 2)
                self._lists.append(1 if name == "ol" else 0)
            case "td" | "th":
                if self._cells:
                    self._lines.cell()
                self._cells += 1
            case "a":
                self._link = self._joined(attributes.get("href", ""))
                self._link_from = len(self._lines)
            case "img":
                self._lines.words(unescaped(attributes.get("alt", "")))
            case "base":
                self._base = self._joined(attributes.get("href", "")) or self._base
            case _:
                pass

    def _finish(self, name: str) -> None:
        """End an element that was seen, and that everything in it has ended."""
        if self._pre is not None:
            # All that ends here has begun in it, and has left no trace.
            self._end_pre(name)
            return
        if name in {"ul", "ol"}:
            self._lists.pop()
            self._lines.part(1 if self._lists else 2)
        elif name == "a":
            self._end_link()
        elif name in _HEADINGS or name in {"li", "tr"}:
            self._lines.leave()
        self._lines.part(_PARTS.get(name, 0))

    def _end_pre(self, name: str) -> None:
        if name != "pre" or self._counts["pre"]:
            return
        text = "".join(self._pre or ()).strip("\n").rstrip()
        self._pre = None
        if text:
            self._lines.put(text)
        self._lines.part(_PARTS["pre"])

    def _end_link(self) -> None:
        """Show where a link leads, if it says anything, and if that was not shown before."""
        link, self._link = self._link, ""
        is_new = link not in self._shown and len(self._shown) < MOST_LINKS
        if link and is_new and len(self._lines) > self._link_from:
            self._shown.add(link)
            self._lines.aside(f"({link})")

    def _joined(self, link: str) -> str:
        """Return the whole address of a link; empty where it leads to no other page."""
        if self._base is None or len(link) > LONGEST_LINK or len(self._shown) >= MOST_LINKS:
            return ""
        link = unescaped(link).strip()
        if not link.isprintable() or link[:1] in {"", "#"}:
            return ""
        try:
            whole = urljoin(self._base, link).partition("#")[0]
        except ValueError:
            return ""
        return whole if whole.startswith(("https://", "http://")) else ""

    def _bullet(self) -> str:
        indent = "  " * min(len(self._lists) - 1, MOST_INDENTS)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        return f"{indent}{number}. " if number else f"{indent}- "
