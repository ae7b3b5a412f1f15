"""Lines that are hard to read right, for property tests."""

from hypothesis import strategies as st

WORDS = st.sampled_from(
    [
        *(b"ERROR", b"[error]", b"level=error", b"FATAL:", b"IOError:", b"x.Y2Error:", b"by:"),
        *(b"db", b"db1", b"7", b"May", b"Jun", b"Mon", b"", b"Caused", b"{", b"{1", b"a{1"),
        *(b"(1+)*", b"\\", b"\xff1", b"\xfe", b"\t", b"1" * 200),
        *(b"a" * 80, b"a" * 81, b"b" * 90, b"w" * 79 + b"!"),
    ]
)
LINES = st.lists(WORDS, max_size=9).map(b" ".join)
LONG_LINES = st.lists(WORDS, min_size=6, max_size=40).map(b" ".join)

_JSON = st.sampled_from(
    [
        *(b"{", b"}", b",", b":", b" ", b"[", b"17", b"-1.5e3", b"null"),
        *(b'"level"', b'"error"', b'"info"', b'"msg"', b'"other"', b'"\xc3\xa9"'),
        *(b'"a b 1 c"', b'"a b 22 c"', b'"a \\" 3"', b'"\\\\"', b'"\\n4"'),
        *(b'"' + b"word " * 50 + end for end in (b'5"', b'"')),
        b'"' + b"k" * 400 + b'"',
    ]
)
JSON_LINES = st.lists(_JSON, max_size=9).map(lambda parts: b'{"level":"error",' + b"".join(parts))

_REQUEST = st.sampled_from(
    [
        *(b"10.0.0.1", b"-", b"[14/Mar/2026", b"+0000]", b'"GET / HTTP/1.1"', b'"'),
        *(b"502", b"503", b"200", b"12"),
    ]
)
REQUESTS = st.lists(_REQUEST, min_size=4, max_size=9).map(b" ".join) | st.sampled_from(
    [b'a - - [x] "GET /" 502 1 "-"', b'b - c [y z] "" 502', b'c - - [x] "a" 503 9']
)
