"""Says on stderr that something takes long, and how far it is.

A thread of its own says so, for what takes long may be a single step, such as compiling after an install. It must not
know what is waited for.
"""

import sys
import threading
import time
from typing import Self

# Silence before the first word, and between two where nothing can be written over.
PATIENCE_S, PLAIN_EVERY_S = 2.0, 10.0
TICK_S = 0.5
CLEAR_LINE = "\r\x1b[K"


class Waiting:
    """Says how far something is, from PATIENCE_S on: on a terminal in one line, else in a line now and then."""

    def __init__(self, what: str = "planning") -> None:
        self.what = what
        self.begun_s = self.told_s = time.monotonic()
        self.shown = False
        self.progress = ""
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        if self.shown and sys.stderr.isatty():
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)

    def tell(self, done: int, of: int) -> None:
        """Say that `done` of so many pieces are done."""
        if done == of:
            return
        self.progress = f" {done} of {of}"
        self._show()

    def _tick(self) -> None:
        while not self._over.wait(TICK_S):
            self._show()

    def _show(self) -> None:
        """Say how far it is, if it is time to."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self.begun_s < PATIENCE_S:
                return
            text = f"{self.what} ...{self.progress}"
            if sys.stderr.isatty():
                print(f"{CLEAR_LINE}{text}", end="", file=sys.stderr, flush=True)
            elif not self.shown or now_s - self.told_s >= PLAIN_EVERY_S:
                print(text, file=sys.stderr, flush=True)
                self.told_s = now_s
            self.shown = True
