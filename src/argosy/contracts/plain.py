"""Text that a screen shows as it is: what would move a cursor, ring, or turn the reading order around is escaped.

Must not know where a text comes from.
"""

import re
import unicodedata

_HIDDEN = ("Cc", "Cs", "Zl", "Zp")
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# JSON has escapes for what stands below; among these is all that is_plain refuses of the rest.
_MAY_HIDE = re.compile("[\x7f-\x9f\u0600-\u06ff\u2000-\u206f]")


def is_plain(char: str) -> bool:
    """Tell what a screen shows as itself: no control character but tab and line feed, no mark that turns text around.

    Half a surrogate pair is no text either. Categories: Unicode's; the marks: those of Unicode's annex 9.
    """
    return char in "\n\t" or (unicodedata.category(char) not in _HIDDEN and char not in _TURNING)


def plain_text(text: str) -> str:
    """Write a text so that a terminal shows all of it and obeys none of it: what isn't plain becomes an escape."""
    return "".join(char if is_plain(char) else ascii(char)[1:-1] for char in text)


def plain_json(text: str) -> str:
    r"""Write JSON so that a terminal obeys none of it; it stays the same to whoever reads it as JSON.

    >>> plain_json('{"text": "\x9b31m"}')
    '{"text": "\\u009b31m"}'
    """
    return _MAY_HIDE.sub(lambda found: found[0] if is_plain(found[0]) else f"\\u{ord(found[0]):04x}", text)
