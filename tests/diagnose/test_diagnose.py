"""What `ddprove diagnose` says of the sets in tests/data/diagnose, against what really went wrong there.

    test_diagnose.py DDPROVE DATA WORK [--write | --table]

Each set as it is; with each of its files left out; with one dump twice, cut short, and written too early. In all of
these nobody is named who did nothing, and where not all is named that went wrong, it is said what cannot be known.
truth.txt says what went wrong; said.txt, what was said, in a line each (--write: write it anew; --table: print it
beside what PyTorch's own analyser said of the same dumps). The first of each kind
is also made a scenario, which `ddprove run` must find to go wrong in the same way.
"""

import json
import os
import pickle
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CODES = {"FAIL": 1, "PASS": 0, "INCONCLUSIVE": 4}


class Answer:
    """What was said of some files."""

    def __init__(self, ddprove, data, files, work, scenario=None):
        path = f"{work}/answer.json"
        more = ["--scenario", scenario] if scenario else []
        done = subprocess.run([ddprove, "diagnose", "--json", path, *more, *files], cwd=data, capture_output=True,
                              text=True, timeout=60)
        self.said = done.stdout + done.stderr
        self.refused = [line for line in done.stderr.splitlines() if line.startswith("ddprove: ")]
        self.code = done.returncode
        if done.returncode == 2:
            self.outcome, self.verdicts, self.culprits, self.suspects, self.unknown = "NOTHING", [], set(), set(), []
            return
        with open(path) as text:
            root = json.load(text)
        findings = root["findings"]
        self.outcome, self.unknown = root["outcome"], root["unknown"]
        self.verdicts = [v for f in findings for v in [f["verdict"], *f["alternatives"]]]
        self.culprits = {rank for f in findings for rank in f["culprit"]}
        self.suspects = {rank for f in findings for rank in f["suspects"]}
        self.first = findings[0]["verdict"] if findings else "NONE"
        assert done.returncode == CODES[self.outcome], f"exit {done.returncode} for {self.outcome}"

    def line(self):
        if self.outcome == "NOTHING":
            return "nothing to read"
        names = ",".join(map(str, sorted(self.culprits))) or "-"
        maybe = ",".join(map(str, sorted(self.suspects)))
        return f"{self.outcome} {self.first} {names}" + (f" suspects {maybe}" if maybe else "")


def read_truth():
    truth = {}
    with open(f"{HERE}/truth.txt") as text:
        for line in text:
            words = line.split()
            if words and not line.startswith("#"):
                named = words[2] if len(words) > 2 else "-"
                truth[words[0]] = (words[1], set() if named == "-" else {int(rank) for rank in named.split(",")})
    return truth


def files_of(data, name):
    """Of a set, or of two that are said together: "a+b"."""
    return sorted(os.path.relpath(os.path.join(place, file), data) for one in name.split("+")
                  for place, _, files in os.walk(f"{data}/{one}") for file in files)


def check(answer, truth, is_whole):
    """Why the answer is wrong; None: it is not."""
    verdict, culprits = truth
    if answer.outcome == "NOTHING":
        return "nothing was read" if is_whole else None
    if not answer.culprits <= culprits:
        return f"innocent ranks are named: {answer.culprits - culprits}"
    if answer.outcome == "FAIL" and (verdict == "NONE" or (verdict != "-" and verdict not in answer.verdicts and
                                                          not is_consequence(verdict, answer))):
        return f"{answer.verdicts} is said, {verdict} it is"
    if verdict != "NONE" and answer.outcome == "PASS":
        return "nothing is said to be wrong"
    if answer.culprits != culprits and not answer.unknown and not answer.suspects:
        return "somebody is missing, and nothing is said not to be known"
    if not answer.culprits and culprits and not answer.suspects & culprits and not answer.unknown:
        return "the culprit is not even a suspect"
    return None


def is_consequence(verdict, answer):
    """A rank that ended, left out a call or a parameter has not come to a later call: that is what records show."""
    return "HANG.NOT_JOINED" in answer.verdicts and (
        verdict.startswith("CRASH") or verdict in ("MISMATCH.MISSING", "USAGE.UNUSED_PARAMETER"))


def variants(data, name, work):
    """(what it is, files, whether it is whole) of a set."""
    files = files_of(data, name)
    yield "", files, True
    if len(files) > 8:
        files, chosen = files, [files[0], files[-1]]
    else:
        chosen = files
    for file in chosen if len(files) > 1 else []:
        yield f"without {file.split('/', 1)[1]}", [one for one in files if one != file], False
    dumps = [file for file in files if "trace_rank" in file and not file.endswith(".json")]
    if not dumps:
        return
    twice = f"{work}/{name}/again"
    shutil.rmtree(f"{work}/{name}", ignore_errors=True)
    os.makedirs(twice)
    shutil.copy(f"{data}/{dumps[0]}", twice)
    yield "twice " + dumps[0].split("/", 1)[1], [*files, f"{twice}/{os.path.basename(dumps[0])}"], True
    for file in dumps if len(dumps) <= 8 else dumps[:2]:
        for part in (12, 15):
            short = f"{work}/{name}/{part}/{os.path.basename(file)}"
            os.makedirs(os.path.dirname(short), exist_ok=True)
            with open(f"{data}/{file}", "rb") as source, open(short, "wb") as target:
                whole = source.read()
                target.write(whole[:len(whole) * part // 16])
            yield (f"{part}/16 of {file.split('/', 1)[1]}", [short if one == file else one for one in files], False)


def check_scenarios(ddprove, data, work, said, truth):
    """One scenario for each verdict that was said first; ddprove must find the same in it."""
    done, wrong = set(), []
    for name in truth:
        answer = said.get(name)
        if answer is None or answer.outcome != "FAIL" or not answer.culprits or answer.first in done:
            continue
        path = f"{work}/{answer.first.lower().replace('.', '_')}.yaml"
        if os.path.exists(path):
            os.remove(path)
        done.add(answer.first)
        again = Answer(ddprove, data, files_of(data, name), work, scenario=path)
        if not os.path.exists(path):
            if "has no like there" not in again.said:
                wrong.append(f"{name}: no scenario was written, and not because there is none: {again.said}")
            continue
        run = subprocess.run([ddprove, "run", path, "--driver", "sim", "--out", f"{work}/run"], capture_output=True,
                             text=True, timeout=300)
        with open(path) as text:
            expects = f"verdict: {answer.first}" in text.read()
        if run.returncode != 0 or not expects:
            wrong.append(f"{name}: {answer.first}: its scenario does not show it:\n{run.stdout}{run.stderr}")
    if len(done) < 10:
        wrong.append(f"only {len(done)} kinds of faults were made scenarios")
    return wrong


def check_time(ddprove, data, work):
    """A dump that was written before the others posted their last call does not tell that its rank is behind."""
    files = files_of(data, "asleep3")
    folder = f"{work}/early"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for file in files:
        shutil.copy(f"{data}/{file}", folder)
    with open(f"{data}/asleep3_json/comm_lib_trace_rank_1.json") as text:
        last = max(entry["time_created_ns"] for entry in json.load(text)["entries"])
    os.utime(f"{folder}/comm_lib_trace_rank_1", ns=(last + 1, last + 1))
    answer = Answer(ddprove, folder, sorted(os.listdir(folder)), work)
    return [] if answer.outcome == "INCONCLUSIVE" and any("is older" in line for line in answer.unknown) else [
        f"a dump from before the hang accuses its rank: {answer.said}"]


def check_refusals(ddprove, data, work):
    """What cannot be used is said in a line each, and the rest is judged; nothing usable is exit 2."""
    folder = f"{work}/refused"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(f"{data}/asleep2", folder)
    with open(f"{folder}/evil_rank_2", "wb") as out:
        pickle.dump(os.getcwd, out, protocol=2)
    with open(f"{folder}/notes.txt", "w") as out:
        out.write("nothing of interest\n")
    wrong = []
    whole = Answer(ddprove, work, ["refused"], work)
    if whole.line() != "FAIL HANG.NOT_JOINED 1" or len(whole.refused) != 2 or "opcode GLOBAL" not in whole.said:
        wrong.append(f"two useless files beside good ones: {whole.said}")
    twice = Answer(ddprove, work, ["refused", "refused/notes.txt"], work)
    if twice.said != whole.said:
        wrong.append(f"a file that is named twice counts twice: {twice.said}")
    for files, words in ((["refused/evil_rank_2"], "opcode GLOBAL"), (["refused/notes.txt"], "nothing in it is known"),
                         (["no/such"], "No such file"), ([], "name the dumps")):
        answer = Answer(ddprove, work, files, work)
        if answer.code != 2 or words not in answer.said or len(answer.refused) != 1:
            wrong.append(f"{files}: exit {answer.code}: {answer.said}")
    healthy = Answer(ddprove, data, files_of(data, "healthy2"), work, scenario=f"{work}/none.yaml")
    if healthy.code != 2 or "no culprit is named" not in healthy.said:
        wrong.append(f"a scenario of nothing: exit {healthy.code}: {healthy.said}")
    return wrong


def print_table(truth, said, removed, data):
    """Sets that PyTorch made: what went wrong, what ddprove says, also with one file removed, what fr_trace says."""
    with open(f"{data}/fr_trace.txt") as text:
        theirs = dict(line.strip().split(": ", 1) for line in text)
    print("| set | what went wrong | ddprove diagnose | one file removed | PyTorch 2.15's fr_trace |\n"
          "|---|---|---|---|---|")
    for name, (verdict, culprits) in truth.items():
        if not name.startswith("written_") and name in said:
            ranks = f" rank {','.join(map(str, sorted(culprits)))}" if culprits else ""
            print(f"| {name} | {verdict}{ranks} | {said[name].line()} | {of_removed(removed.get(name, []), culprits)} | "
                  f"{theirs.get(name, '')} |")


def of_removed(answers, culprits):
    """How often the culprits are still named, and how often it is said what cannot be known. (Wrong names fail.)"""
    same = sum(answer.culprits == culprits and answer.outcome == ("FAIL" if culprits else "PASS") for answer in answers)
    rest = len(answers) - same
    return ", ".join([f"{same} as before"] * (same > 0) + [f"{rest} not all known, and said"] * (rest > 0))


def main():
    ddprove, data, work = (os.path.abspath(path) for path in sys.argv[1:4])
    truth, lines, wrong, said, removed = read_truth(), [], [], {}, {}
    os.makedirs(work, exist_ok=True)
    sets = {name for name in os.listdir(data) if os.path.isdir(f"{data}/{name}")}
    kept = {name for name in truth if "+" not in name}
    wrong += [f"{name}: truth.txt and the folders differ" for name in sorted(sets ^ kept)]
    sets |= {name for name in truth if "+" in name}
    for name in truth:
        for what, files, is_whole in variants(data, name, work) if name in sets else []:
            answer = Answer(ddprove, data, files, work)
            problem = check(answer, truth[name], is_whole)
            lines.append(f"{name} {what}: {answer.line()}\n".replace(" :", ":"))
            if problem:
                wrong.append(f"{name} {what}: {problem}\n{answer.said}")
            if not what:
                said[name] = answer
            if what.startswith("without "):
                removed.setdefault(name, []).append(answer)
    wrong += check_time(ddprove, data, work) + check_refusals(ddprove, data, work)
    if "--write" in sys.argv:
        with open(f"{HERE}/said.txt", "w") as text:
            text.writelines(lines)
    with open(f"{HERE}/said.txt") as text:
        before = text.readlines()
    wrong += [f"said before: {line}" for line in before if line not in lines]
    wrong += [f"said now: {line}" for line in lines if line not in before]
    wrong += check_scenarios(ddprove, data, work, said, truth)
    if "--table" in sys.argv:
        print_table(truth, said, removed, data)
    print("\n".join(wrong) or f"{len(lines)} answers as they should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
