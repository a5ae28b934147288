"""What ddprove says of every scenario in the simulator is what tests/data/said.txt has: outcome, every finding with
all that it names, and its words; and of every scenario, what the monitor saw when it first concluded something (graph.txt
of the first cell that has one). Times are virtual, so they are compared: how soon it was found, who it is, and when the
survivors had ended. Real numbers are compared to two digits, where the processor's floating-point kernels, their library and the
compiler are those that the file was written with; elsewhere they are left out. A few traces are looked at, too: whether their
lines are in columns.

Usage: said.py SIM SAID: compare; SIM: the folder of run.py
       said.py DDPROVE SCENARIOS OUT SAID --write: run, and take what it says now; the difference is for whoever
         reviews the change
"""
import difflib
import json
import os
import re
import subprocess
import sys

IN_COLUMNS = ("crash.sigkill_in_allreduce", "hang.many_ranks", "equivalence.mlp")  # of whose traces it is looked at
SEEN = "    saw: "  # begins a line of what the monitor saw
BITS = re.compile(r"(?<!\.)\b([0-9a-f]{8}|[0-9a-f]{16})\b")
WITH = "# OpenBLAS core: "  # begins the line that says what computed the numbers
FOLDER = re.compile(r"(?:a b|OUT)/runs/.*?/sim/")
REAL = re.compile(r"[-+]?(?<!\.)\b\d+\.\d+(?!\.\d)(e[-+]?\d+)?|\b\d+e[-+]?\d+")  # no address
TIME = re.compile(r" ms\b")
SINCE_START = re.compile(r" ms after the start")  # changes with every change of the core


def plain(text, driver="sim"):
    """Words without bit patterns, real numbers in short; on real processes without these, too. Times of the simulator's clock
    stay as they are."""
    text = BITS.sub("~", text)

    def short(number):
        if SINCE_START.match(text, number.end()):
            return "~"
        return number.group(0) if TIME.match(text, number.end()) else f"{float(number.group(0)):.2g}"

    return REAL.sub(short if driver == "sim" else "~", text)


def computed_with(capsule):
    """The first line: what the numbers depend on."""
    return f"{WITH}{capsule['blas_core']}, {' '.join(capsule['blas'].split()[:2])}, compiler {capsule['compiler']}"


def ranks(values):
    """A list of ranks, short."""
    return ",".join(map(str, values or [])) or "-"


def finding(entry, driver):
    """One line of what a finding names, and its text."""
    op = entry["op"] or {}
    cause = entry["follows_from"]
    fields = [entry["verdict"], entry["oracle"], entry["mode"], "culprits " + ranks(entry["culprit"]),
              "victims " + ranks(entry["victims"]), f"step {entry['step']}", f"micro {entry['micro']}", str(entry["phase"]),
              f"{op.get('kind')} {op.get('role')} {op.get('seq')}", f"bucket {op.get('bucket')}", ranks(op.get("params")),
              "first" if cause is None else f"after {cause['finding']}: {cause['because']}"]
    return "    " + plain(" | ".join(map(str, fields)) + "\n        " + entry["text"], driver)


def said(entry):
    """What a rank said. A run's folder is run/, as it is called until it is known whether it is kept."""
    words = entry["said"]
    return "" if words is None else f" rank {words['rank']} said: {FOLDER.sub('run/', words['text'])}"


def file_of(said):
    """Lines of the file of what is said."""
    with open(said, encoding="utf-8") as file:
        return [FOLDER.sub("run/", line) for line in file.read().splitlines()]


def report_of(out):
    """The cells of the run."""
    with open(os.path.join(out, "r.json"), encoding="utf-8") as file:
        return json.load(file)["scenarios"]


def seen(out, cell):
    """The lines of what the monitor saw."""
    try:
        with open(os.path.join(out, cell["run_dir"], "graph.txt"), encoding="utf-8") as file:
            return [SEEN + plain(line, cell["driver"]) for line in file.read().splitlines()]
    except FileNotFoundError:
        return []


def is_in_columns(line):
    """Whether a line of a trace looks as it should: for people, who read it in columns."""
    found = re.fullmatch(r" *(\d+) (h .*|r(\d+)#(\d+) +(\d+)\.(\d+) (\S+) +(\S+)(?: +(.*)|))", line)
    if found is None:
        return line.startswith(("#", "ddprove-trace "))
    time, own, rank, number, step, micro, phase, event, rest = found.groups()
    if rank is None:
        return line == f"{time:>12} {own}"
    begin = f"{time:>12} r{rank}#{number}" + " " * max(1, 6 - len(rank + number))
    return line == f"{begin}{step:>3}.{micro} {phase:<10} {event:<16}" + (f" {rest}" if rest else "")


def out_of_columns(out, cell):
    """How many lines of the trace are."""
    try:
        with open(os.path.join(out, cell["run_dir"], "trace.txt"), encoding="utf-8") as file:
            return sum(not is_in_columns(line.rstrip("\n")) for line in file)
    except FileNotFoundError:
        return 0


def times(cell):
    """The line of how soon something was found; none of a cell without such a time."""
    fields = [(name, cell[f"{name}_ms"]) for name in ("detect", "attribute", "survivors")]
    known = [f"{name} {value:.2g}" for name, value in fields if value is not None]
    return ["    ms: " + ", ".join(known)] if known else []


def lines_of(cells, out=None):
    """Every cell's lines, in the order of ids and cells. out: of a run whose folders were kept."""
    has_graph = set()
    lines = [computed_with(cells[0]["capsule"])]
    for cell in sorted(cells, key=lambda cell: (cell["id"], cell["cell"])):
        if cell["outcome"] == "SKIP":
            continue
        driver = cell["driver"]
        lines.append(plain(f"{cell['id']} [{cell['cell']}] {cell['outcome']} {cell['verdict']} unexpected "
                           f"{cell['unexpected']}{'' if cell['reason'] == '' else ' | ' + cell['reason']}", driver))
        lines += times(cell) if driver == "sim" else []
        restore = cell["restore"]
        if restore is not None:
            lines.append(plain(f"    restore: from {restore['from_step']}, equals {restore['equals']}, {restore['verdict']} of "
                               f"{ranks(restore['culprit'])}: {restore['text']}{said(restore)}", driver))
        if cell["said"] is not None:
            lines.append(plain("   " + said(cell), driver))
        lines.extend(finding(entry, driver) for entry in cell["findings"])
        if out is not None and cell["id"] not in has_graph:
            graph = seen(out, cell)
            has_graph.update([cell["id"]] if graph else [])
            lines.extend(graph)
        if out is not None and cell["id"].startswith(IN_COLUMNS):
            count = out_of_columns(out, cell)
            lines.extend([f"{SEEN}{count} lines out of columns"] if count > 0 else [])
    return "\n".join(lines).splitlines()


def difference(said, now):
    """Lines of a unified diff with the file of what is said."""
    return changes(file_of(said), now)


def changes(before, now):
    """Lines of a unified diff of what was said before and is now."""
    if now[0] != before[0]:
        print(f"written with another {before[0][2:]}: numbers are not compared")
        now, before = ([re.sub(r"\d+", "#", REAL.sub("~", line)) for line in lines] for lines in (now, before))
    return list(difflib.unified_diff(before, now, "expected", "now", n=1, lineterm=""))


def difference_of(said, cells, out=None):
    """The same for some cells of the suite; without out, what the monitor saw is not compared."""
    heads = tuple(plain(f"{cell['id']} [{cell['cell']}] ") for cell in cells)  # a cell's name may hold brackets, and numbers
    now = lines_of(cells, out)
    before = [line for line in file_of(said) if out is not None or not line.startswith(SEEN)]
    kept, is_kept = before[:1], False
    for line in before[1:]:
        is_kept = is_kept if line.startswith("    ") else line.startswith(heads)
        kept += [line] if is_kept else []
    return changes(kept, now)


def main():
    """Compare, or write."""
    is_written = sys.argv[-1] == "--write"
    out, said = sys.argv[3:5] if is_written else sys.argv[1:3]
    if is_written:
        subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "run.py"), *sys.argv[1:4], "sim"],
                       check=True)
    cells = report_of(out)
    bad = [cell["id"] for cell in cells if cell["outcome"] not in ("PASS", "SKIP")]
    now = lines_of(cells, out)
    if bad:
        print("not as expected, so its words do not count: " + ", ".join(sorted(set(bad))))
        return 1
    if is_written:
        with open(said, "w", encoding="utf-8") as file:
            file.write("\n".join(now) + "\n")
        return 0
    different = difference(said, now)
    print("\n".join(different[:200]))
    print(f"{len(now)} lines, {sum(line[0] in '+-' for line in different)} differ; if they should, "
          "tests/suite/said.py --write takes them")
    return 1 if different or not now else 0


if __name__ == "__main__":
    sys.exit(main())
