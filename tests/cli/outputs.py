"""What a run prints and writes is true and can be used again.

Usage: outputs.py RUN SCENARIOS OUT sim|proc [FAMILY...]

RUN: the folder of tests/suite/run.py. Holds together: the JSON report and verdict.json, JUnit, `check` of every run
folder, and for each scenario (of the families, or all) the command that reproduces, and `plan` fed back to `run`.
"""
import json
import multiprocessing.pool
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../suite"))
import memory  # noqa: E402, of the tests of the suite

KEYS = ["schema", "id", "cell", "driver", "seed", "outcome", "verdict", "reason", "culprit", "victims", "op", "step",
        "micro", "phase", "oracle", "mode", "detect_ms", "attribute_ms", "fired", "judged", "not_judged", "findings", "capsule", "run_dir",
        "reproduce"]
OP_KEYS = ["seq", "kind", "bucket", "params"]
PROPERTIES = ["driver", "seed", "verdict", "culprit", "victims", "reproduce"]
FOUND_PROPERTIES = ["oracle", "mode", "step"]
EXIT_CODES = {"PASS": 0, "FAIL": 1, "ERROR": 3, "INCONCLUSIVE": 4, "SKIP": 77}

the_run, scenarios, out, driver = (os.path.abspath(arg) if at < 3 else arg for at, arg in enumerate(sys.argv[1:5]))
ddprove = os.path.join(the_run, "bin", "ddprove")
families = sys.argv[5:]
failures = 0


def expect(is_true, text):
    """Note a failure."""
    global failures
    if not is_true:
        failures += 1
        print(f"FAIL {text}")


def run(*args):
    """Exit code and stdout of ddprove; "ddprove" in a shell's command is this program."""
    done = subprocess.run([ddprove, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def verdicts_of(text):
    """(outcome, verdict) of every verdict's line."""
    found = []
    for line in text.splitlines():
        match = re.match(r"(PASS|FAIL|ERROR|INCONCLUSIVE|SKIP) +(?:sim|proc) +\S+(?: [\[(].*?[\])])?(?:  ([A-Z_.]+))?(?:  .*)?$",
                         line)
        if match:
            found.append((match[1], match[2] or "NONE"))
    return found


def pair(verdict):
    """What two judgements of one cell must agree on."""
    return verdict["outcome"], verdict["verdict"]


def check_json(verdict):
    """Every key is there, in the report and in the run folder alike."""
    name = f"{verdict['id']}[{verdict['cell']}]"
    for key in KEYS:
        expect(key in verdict, f"{name}: no key {key}")
    if verdict["op"] is not None:
        for key in OP_KEYS:
            expect(key in verdict["op"], f"{name}: no key op.{key}")
    if verdict["outcome"] == "SKIP":
        return  # nothing was run, so nothing was recorded
    with open(os.path.join(verdict["run_dir"], "verdict.json")) as file:
        recorded = json.load(file)
    reported = {key: value for key, value in verdict.items() if key != "wall_ms"}
    expect(recorded == reported, f"{name}: the report and verdict.json differ")


def check_junit(path, report):
    """One testcase a cell, with what a person needs to know."""
    suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
    cases = suite.findall("testcase")
    expect(int(suite.get("tests")) == len(cases) == report["counts"]["total"], "junit: number of tests")
    for case, verdict in zip(cases, report["scenarios"]):
        name = verdict["id"] + (f"[{verdict['cell']}]" if verdict["cell"] else "")
        expect(case.get("name") == name, f"junit: {case.get('name')} is {name}")
        values = {item.get("name"): item.get("value") for item in case.iter("property")}
        wanted = PROPERTIES + (FOUND_PROPERTIES if verdict["verdict"] != "NONE" else [])
        wanted += ["op"] if verdict["op"] is not None else []
        wanted += [key for key in ("detect_ms", "attribute_ms") if verdict[key] is not None]
        for key in wanted:
            if verdict[key] is not None:
                text = verdict[key] if isinstance(verdict[key], str) else json.dumps(verdict[key])
                got = values.get(key)
                same = got == text or (got is not None and not isinstance(verdict[key], str)
                                       and json.loads(got) == verdict[key])
                expect(same, f"junit: {name}: {key} is {got}, not {text}")
        is_bad = case.find("failure") is not None or case.find("error") is not None
        expect(is_bad == (verdict["outcome"] in ("FAIL", "INCONCLUSIVE", "ERROR")), f"junit: {name}: failure")


def check_again(report):
    """`check` of all run folders comes to the same outcomes and verdicts."""
    cells = [verdict for verdict in report["scenarios"] if verdict["outcome"] not in ("ERROR", "SKIP")]
    code, text = run("check", *(verdict["run_dir"] for verdict in cells))
    got = verdicts_of(text)
    expect(len(got) == len(cells), f"check: {len(got)} lines of {len(cells)}: {text[-300:]}")
    for verdict, again in zip(cells, got):
        expect(pair(verdict) == again, f"check {verdict['run_dir']}: {again}, the run {pair(verdict)}")
    worst = [name for name in ("ERROR", "FAIL", "INCONCLUSIVE", "PASS") if name in {one for one, _ in got}][:1]
    expect(code == EXIT_CODES[worst[0] if worst else "ERROR"], f"check: exit {code}")


def check_reproduce(verdict):
    """The printed command, typed into a shell, comes to the same."""
    folder = os.path.dirname(ddprove)
    done = subprocess.run(["/bin/sh", "-c", verdict["reproduce"]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                          check=False)
    expect(done.returncode == EXIT_CODES[verdict["outcome"]] and verdicts_of(done.stdout) == [pair(verdict)],
           f"{verdict['reproduce']}: exit {done.returncode}, not {pair(verdict)}: {done.stdout}")


def cell_of(plan):
    """The cell that a printed plan is."""
    found = re.search(r"^cell: (.*)$", plan, re.M)
    text = found[1] if found else ""
    return json.loads(text) if text.startswith('"') else text


def check_plan(path, verdicts):
    """The plan that `plan` prints of the first cell, given to `run`, comes to what its cell came to."""
    code, text = run("plan", path)
    expect(code == 0, f"plan {path}: exit {code}")
    plans = {cell_of(plan): plan for plan in text.split("\n---\n")}
    # On real processes a choice of the cells was run.
    cells = {verdict["cell"] for verdict in verdicts}
    expect(cells == plans.keys() if driver == "sim" else cells <= plans.keys(), f"plan {path}: one plan a cell")
    if verdicts[0]["cell"] not in plans:
        return
    fed_back = os.path.join(out, "fed back " + os.path.basename(os.path.dirname(path)) + "." + os.path.basename(path))
    with open(fed_back, "w") as file:
        file.write(plans[verdicts[0]["cell"]] + "\n")
    _, text = run("run", fed_back, "--driver", driver, "--out", fed_back + ".runs")
    expect(verdicts_of(text) == [pair(verdicts[0])], f"plan {path} fed back: {text} not {pair(verdicts[0])}")


def is_simulated(path):
    """Whether a scenario runs on sim, where its plan, which names no driver, is fed back."""
    with open(path) as file:
        return not any(line.startswith("drivers: [proc]") for line in file)


def check_file(path, verdicts):
    """What is checked of each scenario; nothing of one that was skipped can be run again."""
    if verdicts[-1]["outcome"] != "SKIP":
        check_reproduce(verdicts[-1])
    if driver == "sim" or not is_simulated(path):
        check_plan(path, verdicts)


memory.remove(out)
memory.link(out)
os.chdir(the_run)
# What the commands that reproduce write, which name no folder.
memory.remove("runs")
memory.link("runs")
with open("code") as code_file:
    exit_code = int(code_file.read())
with open("r.json") as report_file:
    result = json.load(report_file)
counts = result["counts"]
expect(result["schema"] == "ddprove.report/1", "schema")
expect(counts["total"] == len(result["scenarios"]) > 0, "counts.total")
expect(sum(counts[key] for key in ("pass", "fail", "inconclusive", "error", "skip")) == counts["total"], "counts")
expect(exit_code == EXIT_CODES[result["outcome"]], f"exit {exit_code}, outcome {result['outcome']}")
# A family is a folder, which may lie in that of another one.
file_of = {f"{os.path.basename(folder)}.{name[:-5]}": os.path.join(folder, name)
           for folder, _, names in os.walk(scenarios) for name in names if name.endswith(".yaml")}
by_file = {}
for cell in result["scenarios"]:
    check_json(cell)
    by_file.setdefault(file_of[cell["id"]], []).append(cell)
check_junit("r.xml", result)
check_again(result)
wanted = [(path, cells) for path, cells in by_file.items()
          if not families or os.path.basename(os.path.dirname(path)) in families]
with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
    pool.starmap(check_file, wanted, chunksize=1)
memory.remove("runs")
memory.remove(out)
print(f"{counts['total']} cells of {len(by_file)} scenarios, {len(wanted)} of them run again, {failures} failures")
sys.exit(failures > 0)
