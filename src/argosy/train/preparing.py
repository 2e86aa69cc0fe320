"""Makes a job's tokens ready on one node: `python -m argosy.train.preparing < launch.json`.

For an agent, which loads no library of the trainer's. Says on standard output where the tokens lie, one JSON object a
line: progress, then the folder or what is wrong. Loads no torch.
"""

import sys

import msgspec

from argosy.contracts import codec
from argosy.contracts.blame import blame_of, exit_code_of
from argosy.contracts.messages import Launch
from argosy.model.config import read_config
from argosy.train.data.cache import cache_folder
from argosy.train.data.prepare import prepare


def main() -> int:
    """Read a Launch, prepare its data, say where it is; returns the exit code."""
    try:
        launch = codec.decode(sys.stdin.buffer.read(), Launch)
        shape = read_config(launch.model_config, launch.job.model)
        info = prepare(
            launch.job.data,
            sequence_length=launch.job.train.sequence_length,
            vocab_size=shape.vocab_size,
            cache=cache_folder() / "tokens",
            progress=lambda what, share: _say({"preparing": what, "share": round(share, 3)}),
        )
    except Exception as error:
        _say({"failed": str(error), "blame": blame_of(error)})
        return exit_code_of(error)
    _say({"tokens": str(info.folder)})
    return 0


def _say(value: dict[str, object]) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
