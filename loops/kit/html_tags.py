"""The tags and the words of a web page, in their order.

Pages come from strangers, so each character is looked at a bounded number of times, whatever they
wrote: a tag, a comment or a script that is not closed ends with the page, as it does in a browser.
The parser of the standard library begins the search again at each `<`, and so takes minutes for a
hundred kilobytes of `<!--`; that is why there is one here.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """The tag that begins an element; names are in lower case, values as they are written."""

    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class End:
    """The tag that ends an element."""

    name: str


_NAME = re.compile(r"[A-Za-z][^\s/>]*+")
_ATTRIBUTE = re.compile(
    r"[\s/]*+([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\s>]++))?"
)
_COMMENT_END = re.compile(r"--!?>")
_LONG_NUMBER = re.compile(r"&#[0-9]{16,}+;?")
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "iframe", "noembed", "noframes", "textarea", "title")
}
"""What has no tags in it, but that of its own end."""


def tags_of(page: str) -> Iterator[str | Start | End]:
    """Yield the tags of a page in their order, and the text between them; comments are dropped."""
    at, endless = 0, set[str]()
    while at < len(page):
        opened = page.find("<", at)
        if opened != at:
            opened = opened if opened >= 0 else len(page)
            yield unescaped(page[at:opened])
            at = opened
            continue
        token, at, is_closed = _markup(page, at)
        if token is not None:
            yield token
        if not isinstance(token, Start) or token.name not in _RAW:
            continue
        ended = None if token.name in endless else _RAW[token.name].search(page, at)
        if ended is None and is_closed:
            # `<script/>`, as XHTML has it. That there is no end is found out only once.
            endless.add(token.name)
            yield End(token.name)
            continue
        until = ended.start() if ended else len(page)
        yield unescaped(page[at:until])
        at = until


def _markup(page: str, at: int) -> tuple[str | Start | End | None, int, bool]:
    """Return what begins at this `<`, where it ends, and whether it is closed by itself."""
    if name := _NAME.match(page, at + 1):
        attributes, end = _attributes(page, name.end())
        token = Start(name[0].lower(), attributes) if end <= len(page) else None
        return token, end, page.startswith("/>", end - 2)
    if page.startswith("<!--", at):
        ended = _COMMENT_END.search(page, at + 2)
        return None, ended.end() if ended else len(page), False
    if page[at + 1 : at + 2] in {"!", "?", "/"}:
        name = _NAME.match(page, at + 2) if page.startswith("</", at) else None
        end = page.find(">", at)
        return End(name[0].lower()) if name else None, end + 1 if end >= 0 else len(page), False
    return "<", at + 1, False


def _attributes(page: str, at: int) -> tuple[dict[str, str], int]:
    """Return the attributes from here on, and where their tag ends: past the page if nowhere."""
    found: dict[str, str] = {}
    while matched := _ATTRIBUTE.match(page, at):
        at = matched.end()
        value = matched[2] or ""
        quoted = value[1:-1] if value[:1] in {'"', "'"} else value
        found.setdefault(matched[1].lower(), quoted)
    end = page.find(">", at)
    return found, end + 1 if end >= 0 else len(page) + 1


def unescaped(text: str) -> str:
    """Return the text with what stands for characters (`&amp;`, `&#38;`) replaced by them."""
    # Python refuses to read numbers of thousands of digits.
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text
