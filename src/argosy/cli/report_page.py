"""The frame of a report: one HTML page that loads nothing from anywhere, in light and dark.

Escapes every text that it is given, except charts, which `cli.charts` escaped already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from argosy.cli import charts

STYLE = f"""{charts.STYLE}
:root {{ --back: #fbfbf9; --warn: #b3261e; }}
@media (prefers-color-scheme: dark) {{ :root {{ --back: #14181d; --warn: #f2b8b5; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }}
main {{ max-width: 1320px; margin: 0 auto; padding: 28px 24px 48px; }}
h1 {{ font-size: 25px; margin: 0 0 2px; }} h2 {{ font-size: 17px; margin: 34px 0 10px; }}
p {{ margin: 6px 0; }} .soft {{ color: var(--soft); }} .bad {{ color: var(--warn); white-space: pre-wrap; }}
.tag {{ display: inline-block; border: 1px solid var(--x); color: var(--x); border-radius: 4px; padding: 0 7px;
  font-size: 12px; vertical-align: middle; margin-left: 10px; font-weight: 400; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 12px; margin: 18px 0 6px; }}
.card, .panel {{ background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }}
.card b {{ display: block; font-size: 24px; font-weight: 600; font-variant-numeric: tabular-nums; }}
.card span {{ color: var(--soft); font-size: 13px; }}
.two {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 14px; }}
.panel {{ overflow-x: auto; margin-bottom: 12px; }}
.panel h3 {{ font-size: 14px; margin: 0 0 6px; font-weight: 600; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: right; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }}
th {{ font-weight: 600; color: var(--soft); font-size: 13px; }} th.l, td.l {{ text-align: left; }}
tr:last-child td {{ border-bottom: 0; }}
pre {{ margin: 0; font: 13px/1.55 ui-monospace, monospace; white-space: pre-wrap; }}
svg {{ width: 100%; height: auto; display: block; }}
svg.rows {{ min-width: 800px; }} svg rect:hover {{ opacity: 0.75; }}
.bar {{ display: inline-block; width: 90px; height: 9px; background: var(--line); border-radius: 5px; }}
.bar {{ margin-left: 9px; }}
.bar i {{ display: block; height: 9px; border-radius: 5px; background: var(--s0); }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Html:
    """Text that is HTML already, made by this module; a plain `str` is always escaped."""

    text: str


def page(title: str, body: Sequence[str]) -> str:
    """Put sections into a page."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    inner = "\n".join(part for part in body if part)
    html = f'<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body><main>\n{inner}\n</main></body></html>'
    return f"<!doctype html>\n{html}\n"


def paragraph(text: str, style: str = "") -> str:
    """Write one paragraph."""
    return f'<p class="{style}">{escape(text)}</p>' if text else ""


def heading(text: str) -> str:
    """Write the heading of a section."""
    return f"<h2>{escape(text)}</h2>"


def cards(items: Sequence[tuple[str, str]]) -> str:
    """Write the figures that matter most: (figure, what it is)."""
    boxes = (f"<b>{escape(figure)}</b><span>{escape(what)}</span>" for figure, what in items)
    return '<div class="cards">' + "".join(f'<div class="card">{box}</div>' for box in boxes) + "</div>"


def panel(content: str, title: str = "") -> str:
    """Frame a chart or table; nothing where there is no content."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f'<div class="panel">{head}{content}</div>' if content else ""


def side_by_side(panels: Sequence[str]) -> str:
    """Put panels beside one another where there is room."""
    return f'<div class="two">{"".join(panels)}</div>' if any(panels) else ""


def table(titles: Sequence[str], rows: Sequence[Sequence[str | Html]], left: int = 1) -> str:
    """Write a table. left: how many columns are text."""
    if not rows:
        return ""

    def line(cells: Sequence[str | Html], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=l' if index < left else ''}>"
            f"{cell.text if isinstance(cell, Html) else escape(cell)}</{tag}>"
            for index, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{line(titles, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def share_cell(share: float) -> Html:
    """Write a share of one with a bar."""
    text = f"{share:.0%}".replace("%", " %")
    width = 100 * min(1.0, max(0.0, share))
    return Html(text=f'<span>{text}<span class="bar"><i style="width:{width:.0f}%"></i></span></span>')


def preformatted(lines: Sequence[str]) -> str:
    """Write lines as they are."""
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
