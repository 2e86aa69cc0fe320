"""Who is meant, for programs, and advice that names them."""

from argosy.contracts.incident import Party
from argosy.health.parties import advice_for

INIT = "node-a:{pid}:77 [{gpu}] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks 2 cudaDev {gpu} busId 5d000\n"
LOST = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
GONE = "[rank0]: ncclRemoteError: a remote process exited"


class TestParties:
    def test_culprit_and_sufferers_have_fields(self, judged):
        """Rank, host and process of both are told beside the sentence."""
        inits = [INIT.format(pid=20 + rank, gpu=rank, rank=rank).strip() for rank in range(2)]
        lines = (*inits, "node-a:21:77 [1] CUDA out of memory. Tried to allocate", "node-a:20:77 [0] ncclRemoteError")
        (found,) = judged(*lines)
        assert found.culprits == (Party(host="node-a", rank=1, pid=21),)
        assert found.suffered == (Party(host="node-a", rank=0, pid=20),)
        assert found.sufferers == ("rank 0",)

    def test_who_is_unknown_is_left_out(self, judged):
        """Where nobody is named there is no culprit, and nothing made up."""
        (found,) = judged(GONE)
        assert (found.fault_class, found.culprits) == ("unknown", ())

    def test_a_link_that_only_one_end_complains_of_has_two(self, judged):
        """Either end may be at fault, so both are given."""
        line = "node-a:1:2 [0] NCCL WARN NET/IB : Got completion from peer node-b<1> with error 12, opcode 0, len 0"
        (found,) = judged(line)
        assert [party.host for party in found.culprits] == ["node-a", "node-b"]


class TestAdvice:
    def test_names_stand_where_the_advice_has_a_place_for_them(self):
        """What isn't known is said in general."""
        text = "Cordon {host|the host} and reset {chip|the NPU}."
        assert advice_for(text, Party(host="n-1", chip="3")) == "Cordon n-1 and reset NPU 3 of n-1."
        assert advice_for(text, Party()) == "Cordon the host and reset the NPU."

    def test_advice_without_a_place_says_where_it_showed(self):
        """So that a person knows where to look."""
        assert advice_for("Free space.", Party(host="n-1", rank=3)) == "Free space. It showed on rank 3 of n-1."

    def test_the_newest_step_and_checkpoint_are_told(self, judged):
        """From which step to go on is read off the logs, other than where a checkpoint may be damaged."""
        steps = [f"[rank1]: step {number} loss 2.0" for number in range(930, 937)]
        saved = "[rank1]: successfully saved checkpoint from iteration     900 to /ckpt"
        assert judged(saved, *steps, LOST)[0].advice.endswith("checkpoint of step 900; the last step told is 936.")
        broken = (
            "[rank1]: RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
        )
        assert judged(saved, *steps, broken)[0].advice.endswith("last checkpoint; the last step told is 936.")
