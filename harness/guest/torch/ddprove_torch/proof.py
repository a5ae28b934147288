"""A proof as text, without PyTorch: `python -m ddprove_torch.proof DIR` says what its proof.json says."""
import json
import os
import sys


def read(folder):
    path = os.path.join(folder, "proof.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    ended = [name for name in sorted(os.listdir(folder)) if os.path.exists(os.path.join(folder, name, "end"))]
    why = f"no proof: not all ranks came to their end (there are ends of {', '.join(ended) or 'none'})"
    return {"schema": 1, "outcome": "INCONCLUSIVE", "verdict": "NONE", "world": None, "steps": [], "judged": {},
            "not_judged": [{"oracle": "all", "steps": [], "ranks": [], "why": why}], "notes": [], "findings": [],
            "lacking": [], "table": []}


def numbers(values):
    """0, 1, 2, 3, 5 as 0-3, 5."""
    parts, values = [], sorted(values)
    while values:
        run = 1
        while run < len(values) and values[run] == values[0] + run:
            run += 1
        parts.append(f"{values[0]}-{values[run - 1]}" if run > 2 else ", ".join(map(str, values[:run])))
        values = values[run:]
    return ", ".join(parts)


def text_of(proof):
    lines = [f"{proof['outcome']} {proof['verdict']}: equivalence of {proof['world']} ranks with one device, "
             f"steps {numbers(proof['steps']) or 'none'}"]
    lines.append("judged: " + (", ".join(f"{name} {count}" for name, count in sorted(proof["judged"].items())) or "-"))
    for finding in proof["findings"]:
        why = "" if finding["explained_by"] is None else f" (follows from finding {finding['explained_by']})"
        names = finding["parameters"]
        about = f" {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}" if names else ""
        lines.append(f"{finding['verdict']} rank {numbers(finding['ranks'])} step {finding['step']}{about}: "
                     f"{finding['text']}{why}")
    if proof["table"]:
        width = max(len(row["parameter"]) for row in proof["table"])
        lines.append(f"{'parameter':{width}}  {'verdict':18} {'ranks':8} {'since':>5} {'steps':>5} distance")
        lines += [f"{row['parameter']:{width}}  {row['verdict']:18} {numbers(row['ranks']):8} {row['since']:5} "
                  f"{row['steps']:5} {'-' if row['distance'] is None else format(row['distance'], '.3g')}"
                  for row in proof["table"]]
    for entry in proof["not_judged"]:
        lines.append(f"not judged: {entry['oracle']}, rank {numbers(entry['ranks'])}, step {numbers(entry['steps'])}: "
                     f"{entry['why']}")
    lines += [f"note: step {note['step']}, rank {numbers(note['ranks'])}: {note['text']}" for note in proof["notes"]]
    return "\n".join(lines)


def main():
    proof = read(sys.argv[1])
    print(text_of(proof))
    return {"PASS": 0, "FAIL": 1}.get(proof["outcome"], 4)


if __name__ == "__main__":
    sys.exit(main())
