"""What holds for judging whatever was seen: contract words, no crash, symptoms and noise change no verdict."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.codec import decode, encode
from argosy.contracts.incident import CULPRIT_KINDS, REMEDIES, Incident
from argosy.health.intake import take_in
from argosy.health.judge import judge
from argosy.health.packaged import load_book
from argosy.health.scanner import Scanner

BOOK = load_book()
SCANNER = Scanner(BOOK.signatures)
NOISE = yaml.safe_load(Path(__file__).with_name("field.yaml").read_text(encoding="utf-8"))["noise"]
EXAMPLES = sorted(BOOK.examples.values())
SYMPTOMS = (
    "[rank5]:[E ProcessGroupNCCL.cpp:563] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=157, "
    "OpType=ALLREDUCE, NumelIn=2200, NumelOut=2200, Timeout(ms)=600000) ran for 600037 milliseconds before timing out.",
    "[rank6]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:41233",
    "failed (exitcode: -6) local_rank: 5 (pid: 812) of binary: /usr/bin/python3",
)
CAUSES = (
    "node-1 kernel: NVRM: Xid (PCI:0000:5d:00): 79, pid=1, GPU has fallen off the bus.",
    "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "[rank2]: OSError: [Errno 24] Too many open files",
    "slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT 2026-11-30T14:02:11 DUE TO TIME LIMIT ***",
)
lines = st.lists(st.one_of(st.sampled_from(EXAMPLES), st.sampled_from(NOISE), st.text(max_size=60)), max_size=12)


def judged(*texts: str) -> tuple[Incident, ...]:
    """Judge lines as one log."""
    data = "\n".join(texts).encode("utf-8", "surrogatepass")
    return judge(take_in([("job.log", data)], SCANNER).sightings, (), BOOK)


@pytest.mark.slow
class TestLaws:
    @settings(max_examples=100)
    @given(texts=lines)
    def test_any_lines_give_incidents_in_contract_words(self, texts):
        """Whatever is printed, judging ends, and what it says is an Incident that survives JSON."""
        for incident in judged(*texts):
            assert incident.fault_class in BOOK.classes
            assert incident.culprit.kind in CULPRIT_KINDS
            assert incident.remedy in REMEDIES
            assert incident.confidence in ("high", "medium", "low")
            assert incident.evidence
            assert decode(encode(incident), Incident) == incident

    @given(cause=st.sampled_from(CAUSES), symptoms=st.lists(st.sampled_from(SYMPTOMS)), place=st.integers(0, 5))
    def test_symptoms_do_not_change_the_cause(self, cause, symptoms, place):
        """However many others time out, before or behind, the verdict is that of the cause alone."""
        texts = [*symptoms[:place], cause, *symptoms[place:]]
        alone, among = judged(cause)[0], judged(*texts)[0]
        assert (among.fault_class, among.remedy, among.culprit) == (alone.fault_class, alone.remedy, alone.culprit)

    @given(cause=st.sampled_from(CAUSES), noise=st.lists(st.sampled_from(NOISE)))
    def test_noise_does_not_change_the_cause(self, cause, noise):
        """What healthy programs print beside it does not change a verdict."""
        assert [each.fault_class for each in judged(*noise, cause)] == [judged(cause)[0].fault_class]
