"""Whose fault an exception is."""

import errno

import pytest

from argosy.contracts.blame import blame_of, exit_code_of, is_peer_symptom
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, NeverFitsError, UserCodeError


class OutOfMemoryError(RuntimeError):
    """Stands for torch's class of this name."""


class TestBlame:
    @pytest.mark.parametrize(
        ("error", "blame", "code"),
        [
            (BadInputError("x"), "user", 2),
            (NeverFitsError("x"), "user", 3),
            (UserCodeError("x"), "user", 4),
            (InfrastructureError("x"), "infrastructure", 5),
            (OSError(errno.ENOSPC, "No space left on device"), "infrastructure", 5),
            (MemoryError(), "infrastructure", 5),
            (OutOfMemoryError("x"), "infrastructure", 5),
            (RuntimeError("Connection reset by peer"), "infrastructure", 5),
            (RuntimeError("shape mismatch"), "argosy", 1),
            (KeyError("x"), "argosy", 1),
            (ArgosyError("x"), "argosy", 1),
        ],
    )
    def test_class_and_text_decide(self, error, blame, code):
        """Each kind of exception has its blame and exit code."""
        assert (blame_of(error), exit_code_of(error)) == (blame, code)

    def test_an_interrupt_has_its_own_code(self):
        """Ctrl-C leaves with 130."""
        assert exit_code_of(KeyboardInterrupt()) == 130


class TestPeerSymptom:
    @pytest.mark.parametrize(
        "text",
        [
            "[/pytorch/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:35201",
            "Read error [127.0.0.1]:1: Connection reset by peer",
            "Application timeout caused pair closure",
            "Timed out waiting 1800000ms for recv operation to complete",
            "The client socket has timed out after 300000ms while trying to connect to (127.0.0.1, 29500).",
            "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
        ],
    )
    def test_lost_peers_are_recognised(self, text):
        """What gloo and the store say when a peer went away."""
        assert is_peer_symptom(text)

    @pytest.mark.parametrize("text", ["No space left on device", "corpus.txt: no text in it", ""])
    def test_causes_are_not(self, text):
        """Texts that name a cause are no symptoms."""
        assert not is_peer_symptom(text)
