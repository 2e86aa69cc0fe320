"""How often diagnosis names the right family, remedy and culprit, on cases whose causes people confirmed.

A case is a JSON file with `log` (lines as programs print them), `fault_class`, `remedy_class` and `culprit`; its lines
are judged as one text file. Where lines do not allow a decision, `unknown` is right, and the reason is listed. Prints a
table, or JSON with --json.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.contracts.errors import BadInputError
from argosy.contracts.incident import Incident
from argosy.health.intake import take_in
from argosy.health.judge import judge
from argosy.health.packaged import load_book
from argosy.health.scanner import Scanner
from command import start

# Why the lines of a case do not allow a decision, by the thread that the case is from.
UNDECIDABLE = {
    "NVIDIA/open-gpu-kernel-modules#1151": "the lines show a lost GPU; that its circuit was overloaded came out when "
    "it was moved to another",
    "mlvlab/Flipped-VQA#6": "the launcher says only that a worker left with code 1",
}
# What cases call a culprit, and the kinds by which an Incident may name it.
KINDS: Mapping[str, tuple[str, ...]] = {
    "rank": ("rank", "chip", "code"),
    "gpu": ("chip", "link"),
    "npu": ("chip", "link"),
    "host": ("host", "chip", "link", "rank"),
    "link": ("link", "host", "chip"),
    "code": ("code", "rank"),
    "data": ("code", "unknown"),
    "config": ("configuration",),
    "container": ("configuration",),
    "software": ("configuration", "code"),
    "launcher": ("configuration",),
    "storage": ("configuration", "unknown", "host"),
}


def main() -> None:
    """Judge every case and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=Path, help="folder of cases, one JSON file each")
    options = parser.parse_args()
    result = measure(read_cases(options.cases or _reference_cases()))
    if options.json:
        print(json.dumps(result))
        return
    for row in result["cases"]:
        answer = f"{row['verdict']:8} {row['expected']:28} {row['named']:28} {row['culprit']:8}"
        print(f"{row['id']:>4}  {answer} {row['reason']}".rstrip())
    print(", ".join(f"{key} {result[key]}" for key in result if key != "cases"))


def read_cases(folder: Path) -> list[dict[str, Any]]:
    """Read the cases of a folder, in the order of their names. Raises BadInputError for a folder without any."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise BadInputError(f"--cases {folder}: holds no .json file; name a folder of cases")
    cases = []
    for path in paths:
        case = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(case, dict) or not {"log", "fault_class", "remedy_class"} <= set(case):
            raise BadInputError(f"{path}: not a case; it needs log, fault_class and remedy_class")
        cases.append({"id": path.stem, "culprit": {}, "source": "", **case})
    return cases


def measure(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Judge cases and count; of cases that are not decidable only whether they were told unknown."""
    book = load_book()
    scanner = Scanner(book.signatures)
    rows = []
    for case in cases:
        text = "\n".join(case["log"]) + "\n"
        taken = take_in([(f"case-{case['id']}.log", text.encode())], scanner)
        rows.append(judged(case, judge(taken.sightings, (), book)))
    decidable = [row for row in rows if not row["reason"]]
    verdicts = Counter(row["verdict"] for row in decidable)
    culprits = Counter(row["culprit"] for row in decidable)
    return {
        "n": len(rows),
        "decidable": len(decidable),
        "family_right": sum(row["family_right"] for row in decidable),
        "remedy_right": sum(row["remedy_right"] for row in decidable),
        "both_right": verdicts["right"],
        "wrong": verdicts["wrong"],
        "unknown": verdicts["unknown"],
        "class_right": sum(row["class_right"] for row in decidable),
        "culprit_right": culprits["right"],
        "culprit_wrong": culprits["wrong"],
        "culprit_unknown": culprits["unknown"],
        "cases": rows,
    }


def judged(case: Mapping[str, Any], incidents: Sequence[Incident]) -> dict[str, Any]:
    """Compare a case with the first Incident; no Incident and the class `unknown` are the same answer."""
    first = incidents[0] if incidents and incidents[0].fault_class != "unknown" else None
    named = first.fault_class if first else "unknown"
    family_right = named.partition(".")[0] == case["fault_class"].partition(".")[0]
    remedy_right = first is not None and first.remedy == case["remedy_class"]
    return {
        "id": case["id"],
        "expected": case["fault_class"],
        "expected_remedy": case["remedy_class"],
        "named": named,
        "remedy": first.remedy if first else "",
        "confidence": first.confidence if first else "",
        "incidents": len(incidents),
        "family_right": family_right,
        "remedy_right": remedy_right,
        "class_right": named == case["fault_class"],
        "verdict": "unknown" if first is None else "right" if family_right and remedy_right else "wrong",
        "culprit": culprit_verdict(case["culprit"], first),
        "culprit_named": f"{first.culprit.kind} {first.culprit.name}".strip() if first else "",
        "reason": UNDECIDABLE.get(case["source"], ""),
    }


def culprit_verdict(expected: Mapping[str, Any], incident: Incident | None) -> str:
    """Tell whether the culprit is right, wrong or left unknown.

    Right: a kind that fits, and the host, rank or device where the case states one. Wrong: a name that differs from the
    one stated, or a kind that puts the blame elsewhere. A fault of configuration may be told of the host that has it.
    """
    if incident is None or not incident.culprit.kind:
        return "unknown"
    kind, name = incident.culprit.kind, incident.culprit.name
    fits = KINDS.get(str(expected.get("kind")), ())
    if incident.remedy == "fix_config":
        fits = (*fits, "configuration", "host", "rank")
    stated = [str(expected[key]) for key in ("host", "rank", "gpu", "device") if expected.get(key) is not None]
    stated += [str(rank) for rank in expected.get("ranks", ())]
    stated = [part.lower() for part in stated if part not in ("all", "preempted node")]
    if kind not in fits:
        return "unknown" if kind == "unknown" else "wrong"
    if not stated or kind == "configuration":
        return "right"
    if not name:
        return "unknown"
    return "right" if any(part in name.lower() for part in stated) else "wrong"


def _reference_cases() -> Path:
    root = os.environ.get("ARGOSY_REFERENCE_DATA") or str(Path(__file__).parents[2] / "shared" / "data")
    folder = Path(root) / "faults" / "cases"
    if not folder.is_dir():
        raise BadInputError(f"no cases at {folder}; name a folder with --cases, or set ARGOSY_REFERENCE_DATA")
    return folder


if __name__ == "__main__":
    start(main)
