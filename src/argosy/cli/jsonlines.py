"""A run as JSON lines on standard output: one object an event, `result` last, and nothing else.

Objects that ranks and agents send are those of `contracts.messages`; the others are listed in docs/cli.md.
"""

import sys
from typing import IO, Any

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.contracts.codec import encode
from argosy.contracts.messages import Upward
from argosy.train.data.prepare import TokenSetInfo


class JsonLines:
    """Writes each event as it comes."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out or sys.stdout

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Write the plan that will run and how many others there were."""
        about = {"fleet": inputs.fleet.name, "options": len(choice.plans), "notes": choice.notes}
        self.write({"type": "plan", **about, "plan": choice.plan})

    def preparing(self, what: str, share: float) -> None:
        """Write how far the data is."""
        self.write({"type": "preparing", "what": what, "share": share})

    def prepared(self, info: TokenSetInfo) -> None:
        """Write what the data is."""
        self.write(
            {
                "type": "data",
                "folder": str(info.folder),
                "sequences": info.sequences,
                "reused": info.reused,
                "meta": info.meta,
            }
        )

    def heard(self, message: Upward) -> None:
        """Write a message as it came."""
        self.write(message)

    def write(self, event: Any) -> None:
        """Write one object as one line, at once."""
        self._out.write(encode(event).decode() + "\n")
        self._out.flush()
