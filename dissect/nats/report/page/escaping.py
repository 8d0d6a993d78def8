"""Makes text from the wire harmless in the page: in HTML, in JSON inside HTML, and in a terminal.

Jinja2 escapes `& < > " '` in everything that templates write. In addition, control characters and marks that
change the direction of text are shown as `\\uNNNN`, so that a name cannot look like another one.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

from markupsafe import Markup, escape

from ...schema.records import printable

# `</script>` and `<!--` would end or change the element around them.
_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

# After a separator, unless a digit follows: addresses and numbers stay whole.
_BREAK = re.compile(r"(?<=[.,:;/=_}\]-])(?=[^\d\s:])")


def inert(text: str) -> str:
    """The text, with characters that affect their surroundings, and surrogates, shown as escapes."""
    if isinstance(text, Markup):
        return text
    return printable(text).encode("utf-8", "backslashreplace").decode("utf-8")


def inert_value(value: object) -> object:
    """`inert` for texts; other values unchanged."""
    return inert(value) if isinstance(value, str) else value


def cut(text: str, longest: int) -> str:
    """The text, cut to `longest` characters, the last of them `…`, if it is longer."""
    text = inert(text)
    return text if len(text) <= longest else f"{text[:longest - 1]}…"


def breakable(text: str) -> Markup:
    """A text that the browser may wrap after its separators, but not inside an address."""
    return Markup("<wbr>").join(escape(part) for part in _BREAK.split(inert(text)))


def json_in_html(value: object) -> Markup:
    """JSON that is safe in a `<script type="application/json">`."""
    return Markup(json.dumps(value, separators=(",", ":")).translate(_IN_HTML))


def csp_hash(source: str) -> str:
    """The hash with which a content security policy allows this inline script or style."""
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"
