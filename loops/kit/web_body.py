"""What the body of an answer is: its type, how it is packed, and which characters its bytes are."""

import codecs
import re
import zlib


def kind_of(content_type: str) -> tuple[str, str]:
    """Return the type in lower case, and the charset; each empty where it is not said."""
    kind = content_type.partition(";")[0].strip().lower()
    charset = _CHARSET.search(content_type)
    return kind if _KIND.fullmatch(kind) else "", charset[1] if charset else ""


def is_html(kind: str) -> bool:
    """Say whether a body of the type is a page."""
    return kind in {"text/html", "application/xhtml+xml"}


def is_readable(kind: str) -> bool:
    """Say whether a body of the type is text."""
    return _READABLE.fullmatch(kind) is not None


_KIND = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,90}")
_CHARSET = re.compile(r";\s{0,9}charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_READABLE = re.compile(
    r"text/.+|.+/.+\+(?:json|xml)|application/(?:json|xml|xhtml\+xml|x-ndjson|jsonl|javascript"
    r"|x-javascript|ecmascript|yaml|x-yaml|toml|sql|graphql)"
)


class Unpacked:
    """The bytes of a body that comes in pieces, as they were before it was packed.

    Not the library's: it unpacks a piece whole, which may be a thousand times as long, and as many
    times over as the sender says.
    """

    def __init__(self, encoding: str) -> None:
        """Take what the answer says of its `Content-Encoding`.

        Raises:
            ValueError: When it is packed in a way that was not asked for.
        """
        self._encoding = encoding.strip().lower()
        if self._encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise ValueError("it is packed in a way that was not asked for")
        is_packed = self._encoding not in {"", "identity"}
        # Either header, of gzip or of zlib, is found by itself.
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if is_packed else None
        self._is_first = True

    def take(self, piece: bytes, room: int) -> bytes:
        """Return what a piece holds, at most `room` bytes of it; the rest is lost.

        Raises:
            zlib.error: When it is broken.
        """
        if self._inflater is None:
            return piece[:room]
        is_first, self._is_first = self._is_first, False
        try:
            return self._inflater.decompress(piece, room)
        except zlib.error:
            if not is_first or self._encoding != "deflate":
                raise
        # Some servers leave out the header of zlib.
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._inflater.decompress(piece, room)


def decoded(body: bytes, charset: str, *, is_page: bool) -> str:
    """Return the text of a body: by its mark, else by `charset`, else by the page's own word.

    What none of these tells is UTF-8; a byte that does not fit becomes a replacement character.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    said = _META.search(body[:4096]) if is_page else None
    named = _codec(charset) or (_codec(said[1].decode("ascii")) if said else "")
    # A page that says in single bytes that it has two of them each is mistaken.
    is_mistaken = said is not None and named.startswith("utf-16")
    return body.decode("utf-8" if is_mistaken or not named else named, "replace")


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"<meta[^>]{0,400}?charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9_.:-]{1,40})", re.I)
_CODECS = re.compile(
    r"utf-8|utf-16(?:-le|-be)?|iso8859-\d+|cp125\d|cp949|koi8-[ru]|mac-(?:roman|cyrillic)|big5"
    r"|gbk|gb2312|gb18030|shift_jis|euc_jp|euc_kr|iso2022_jp"
)
"""The charsets of the web. Python knows more of them, some of which take their time to decode."""


def _codec(label: str) -> str:
    """Return Python's name of a charset; empty for one that is none of the web's."""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return ""
    if name in {"iso8859-1", "ascii"}:
        return "cp1252"  # as browsers read them
    return name if _CODECS.fullmatch(name) else ""
