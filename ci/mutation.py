"""Mechanical mutants of the core and of the judging side: which does a scenario notice?

Usage: mutation.py [--count N] [--budget SECONDS] [--only FOLDER] [--seed N] [--again] [--survivors]

Mutants come from universalmutator's rules for C, sampled by file in proportion to its mutants. Each is
compiled and linked ahead of the archives, as those of tests/mutants. A mutant whose machine code is that of
the original, or of an earlier mutant, is left out. It is killed by the first run that is not as expected, in
this order: of the scenarios that run the mutant's line in sim (gcov) those of healthy jobs, since these say
best what is wrong; a fixed campaign (sim), all of whose findings are known; `ddprove coll check` of every algorithm, for
schedules (kinds that no job posts are only proved: noticed, but no right family); all of these scenarios, with every word, and
their runs judged again from their files; records that the program has made and that were damaged, with every word that is
said of them; on real processes those scenarios that reach what sim has not; canaries of the judge of guests; what only a
plug-in's all-reduce reaches, with three of them; `coll check` of all exhibits of tests/coll/museum.c, and `explain --events` of a
few runs, with every word; reports in every form; what only a card shows, on the stand-ins of one; and some once more
in a program built with AddressSanitizer and UBSan, on real processes where these run the file. What nothing of this has
noticed the unit tests are asked for, last and once: that helps this core alone, and does not count as killed. What says
nothing of what is wrong is noticed, and what follows is asked for a verdict first: other words, a schedule's proof that fails
or crashes, INCONCLUSIVE, or a FAIL that found nothing. A verdict of a wrong family is none of these: it counts.
Results are kept in build/mutation/results.jsonl by the text of the mutated function, so that a later call goes on. It starts
from those in ci/results/mutation.jsonl, a run that is not whole yet or the last whole one, and from those of other seeds:
whatever was drawn once is in the whole sample, which --count fills up. A result stays while its function does, and says of
which commit it is; --again judges those again that nothing noticed. Mutants that change nothing that can be observed are
listed, each with its argument, in ci/equivalent_mutants.txt, and are left out.

--seed N draws another sample, of mutants that none of those results has: the suite was not tuned on them. Its results
are kept in files of their own, build/mutation/results_N.jsonl and ci/results/mutation_N.jsonl. Draw one, look at its
figure, and only then at its mutants.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import hashlib
import io
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests/suite"), os.path.join(ROOT, "ci")]
import damaged  # noqa: E402  pylint: disable=wrong-import-position
import campaign_said  # noqa: E402  pylint: disable=wrong-import-position
import said  # noqa: E402  pylint: disable=wrong-import-position
import standin_said  # noqa: E402  pylint: disable=wrong-import-position
from mutant_builder import BUILD, Builder  # noqa: E402  pylint: disable=wrong-import-position
SCENARIOS = os.path.join(ROOT, "scenarios")
SAID = os.path.join(ROOT, "tests/data/said.txt")
DAMAGED = os.path.join(ROOT, "tests/data/damaged.txt")
STANDIN_SAID = os.path.join(ROOT, "tests/data/standin.txt")
CAMPAIGN_SAID = os.path.join(ROOT, "tests/data/campaign.txt")
RESULTS = os.path.join(BUILD, "results.jsonl")
KEPT = os.path.join(ROOT, "ci/results/mutation.jsonl")
ARGUED = os.path.join(ROOT, "ci/equivalent_mutants.txt")
SEED = 20261122
# What is mutated, and the families of verdicts that are right for a mutant of it. A mutant may do whatever its
# folder's code can do wrong; a crash or a hang of the job is what it is. Never right: an ERROR of the harness,
# evidence that is lost, or blame on the launcher.
PROC = ["equivalence", "control", "hang", "crash", "stop", "launch", "resource"]
CORE = {"VALUE", "MISMATCH", "HANG", "CRASH", "USAGE", "RESOURCE"}
FOLDERS = {
    "ddpcore/ddp": CORE | {"DATA"}, "ddpcore/schedule": CORE, "ddpcore/collective": CORE, "ddpcore/transport": CORE,
    "ddpcore/checkpoint": {"CHECKPOINT", "CRASH", "VALUE", "HANG", "RESOURCE"},
    "ddpcore/store": {"HANG", "CRASH", "LAUNCH", "RESOURCE"},
    "harness/monitor": None, "harness/oracle": None, "harness/judge": None, "harness/emulation": None,
    "harness/sums": None, "harness/trace": None, "harness/inject": None, "harness/evidence": None, "harness/observed": None,
    "harness/order": None, "harness/report": None,
}
# The simulator's store is kept beside its messages: calls in a file of its own, keys where the members of the groups are.
FILES = {"ddpcore/transport/loop_store.c": FOLDERS["ddpcore/store"],
         "ddpcore/transport/loop_net.c": FOLDERS["ddpcore/transport"] | FOLDERS["ddpcore/store"]}
# What real processes alone reach, and the scenarios that do: (folder, part of the file's name, scenarios).
def that_say(pattern):
    """Scenarios whose text has it."""
    for path in sorted(glob.glob(f"{SCENARIOS}/*/*.yaml")):
        with open(path, encoding="utf-8") as file:
            if re.search(pattern, file.read()):
                yield os.path.relpath(path, SCENARIOS)


# Whose ranks reach each other over tcp, and whose threads read batches ahead, which they never do in sim.
TCP = list(that_say(r"\btransport: *\[?[^\]}\n]*\btcp\b"))
LOADER = list(that_say(r"\bloader_workers:"))
# Of somebody else's program, all of them: what is asked of a run of ranks alone, and of steps, is asked of those.
OF_GUESTS = [os.path.relpath(path, SCENARIOS) for path in sorted(glob.glob(f"{SCENARIOS}/guest/*.yaml"))]
ON_PROC = [("ddpcore/transport", "shm", PROC), ("ddpcore/transport", "tcp", TCP), ("ddpcore/store", "", PROC),
           ("harness/monitor", "", PROC), ("harness/trace", "", PROC), ("harness/sums", "tree", ["mpi"]),
           ("harness/oracle", "tree", ["mpi"]),
           ("harness/oracle", "usage_links", ["io"]),
           ("ddpcore/collective", "queue", ["mpi"]), ("ddpcore/collective", "control", ["mpi"]),
           ("ddpcore/collective", "compiled", PROC), ("harness/inject", "", PROC + ["io", "slow"]),
           ("ddpcore/ddp", "loader", LOADER), ("harness/observed", "", OF_GUESTS),
           ("harness/judge", "cause", ["launch"])]
# What only a plug-in shows, which emits schedules or moves the data itself: scenarios with its all-reduces, on real processes.
ON_PLUGIN = ["ddpcore/collective/executor.c", "ddpcore/collective/executor_move.c", "ddpcore/collective/queue.c",
             "ddpcore/collective/cache.c", "ddpcore/transport/blocks.c"]
WITH_PLUGIN = ["equivalence/mlp_w4", "crash/sigkill_in_allreduce", "mismatch/redop", "hang/inside_collective",
               "stop/sigstop_forever", "mismatch/count"]
# What only a card shows: scenarios/device on the stand-ins of one (tests/standin), where nvcc can be had to configure;
# these, and those of standin_said.py with every word.
ON_STANDIN = ["ddpcore/collective/queue.c", "ddpcore/collective/control.c", "ddpcore/collective/observer.c",
              "ddpcore/ddp/verify_gather.c", "ddpcore/ddp/reducer.c", "ddpcore/ddp/ddp.c", "harness/monitor/device.c",
              "harness/monitor/position.c", "harness/monitor/cut_print.c", "harness/oracle/happens_before.c",
              "harness/oracle/tree_check.c", "harness/sums/tree.c", "harness/sums/tree_run.c", "harness/sums/tree_set.c"]
STANDIN = ["async_error", "sigkill_after_launch", "slow_kernel"]
# Of the scenarios that were not written for a card, those that reach a file there otherwise than on CPUs.
ON_STANDIN_TOO = {
    "ddpcore/ddp/join.c": ["uneven/join", "uneven/join_buffers", "uneven/join_final_model", "uneven/join_micro_batches"],
    "ddpcore/ddp/loader.c": ["equivalence/loader", "crash/loader_worker"],
    "ddpcore/ddp/scaler.c": ["scaler/healthy", "scaler/flag"], "ddpcore/ddp/clip.c": ["trainer/healthy"],
    "ddpcore/ddp/view.c": ["unused/view_by_rank"],
}
# What only a program of somebody else's can be found with: canaries of its judge, and a few others (guest/c*.yaml).
ON_GUEST = ["harness/judge/expect.c", "harness/judge/judge.c"]
GUESTS = ["ddprove_guest_trainer", "ddprove_guest_model_trainer"]
# Whose events are shown as `explain --events` does.
SHOWN = ["value/flip_before", "mismatch/skipped", "crash/two_ranks", "checkpoint/resume"]
# Whose reports are compared in every form; once as expected, once not.
REPORTED = ["equivalence/mlp_w4", "value/flip_before", "crash/two_ranks", "checkpoint/killed_twice", "canary/wrong_step", "stop/all_ranks"]
# What judging a recorded run runs otherwise.
ON_CHECK = ["harness/trace", "harness/judge", "harness/monitor", "harness/oracle", "harness/emulation", "harness/evidence",
            "harness/observed", "harness/order"]
# Judges damaged records, too (tests/suite/damaged.py).
ON_DAMAGED = [*ON_CHECK, "harness/sums"]
# Unit tests, for what nothing else has noticed.
UNITS = ["unit_base", "unit_seam", "unit_schedule", "unit_collective", "unit_ddp", "unit_data_parallel", "unit_checkpoint",
         "unit_transport", "unit_store", "unit_shm_ring", "unit_world", "unit_rank", "unit_plan", "unit_scenario", "unit_trace",
         "unit_inject", "unit_monitor", "unit_watch", "unit_observed", "unit_oracle", "unit_happens_before",
         "unit_happens_before_core", "unit_verdict", "unit_report", "unit_cell", "unit_task", "unit_shrink", "unit_campaign",
         "unit_guest", "unit_diagnose", "unit_proc"]
# At most so many scenarios are judged again from their files, run under sanitizers, for the judging side run on real
# processes, and for tcp, of those that are not written for it, run over it.
CHECKED = 60
SANITIZED = 16
ON_PROC_TOO = 32
ON_TCP_TOO = 60
# Scenarios are run so many at a time: what differs is often seen in the first ones.
AT_A_TIME = 100
CELL_SECONDS = 20  # of a processor, each process
# A run may wait for its own limits of time, too: so many times as long, of the time that the machine has for it (share).
BUSY = 4
SHARE_SECONDS = 0.2
IDLE_SECONDS = 15
IDLE_SHARE = 0.15
STARVED = 10  # by the clock so many times as long, and nothing is known of the mutant
MEMORY_BYTES = 4 << 30
FILE_BYTES = 1 << 30
# The compiler refuses them, or their code is that of the original or of another one, or of the list of the equivalent.
LEFT_OUT = ("refused", "equivalent", "argued")
CLEAN = ["equivalence", "control", "uneven", "unused"]  # where no scenario is known to run the line


def sources():
    """The files that are mutated, by folder."""
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            if name.endswith(".c"):
                yield f"{folder}/{name}"


def argued():
    """{(path, which of the file's lines that read so, old line, new line)} of the list of equivalent mutants, and its
    rules, [(pattern of files, pattern of an old line, what becomes of it)]; every entry has an argument. which: from 1; 0:
    the only one."""
    found = set()
    rules = []
    with open(ARGUED, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            if line.startswith("    "):  # the argument of the entries above it
                continue
            where, rest = line.rstrip("\n").split(" ", 1)
            old, new = (part.strip() for part in rest.split("  ->  "))
            if where.startswith("~"):
                rules.append((re.compile(where[1:] or ".*"), re.compile(old), new))
            else:
                path, which = re.fullmatch(r"(.*?)(?:\[(\d+)\])?:", where).groups()
                found.add((path, int(which or 0), old, new))
    return found, rules


def opener(source, at):
    """The line that opens the block which the brace in this place closes."""
    indent = len(source[at]) - len(source[at].lstrip())
    return next((line.strip() for line in reversed(source[:at])
                 if line.strip() and len(line) - len(line.lstrip()) <= indent), "")


def ends_loop(source, number):
    """Whether what follows the statement that ends on this line is the end of a loop's body: there `continue` changes
    nothing."""
    at = number if source[number - 1].rstrip().endswith((";", "}")) else len(source)
    while at < len(source):
        line = source[at].strip()
        if line.startswith("} else"):  # the other branches are not run
            brace = source[at][:source[at].index("}") + 1]
            at = next((i for i in range(at + 1, len(source)) if source[i].startswith(brace)), len(source))
        elif line == "}" and opener(source, at).startswith(("if (", "} else")):
            at += 1
        else:
            return line == "}" and opener(source, at).startswith(("for (", "while ("))
    return False


def is_argued(entries, path, source, number, new):
    """Whether the list has the mutant of a line, or a rule for it. An entry is of one line: one argument does not fit all
    lines that happen to read the same."""
    found, rules = entries
    old = source[number - 1].strip()
    if new == f"{old} continue;" and ends_loop(source, number):
        return True
    same = [place for place, line in enumerate(source, 1) if line.strip() == old]
    if (path, same.index(number) + 1 if len(same) > 1 else 0, old, new) in found:
        return True
    return any(files.fullmatch(path) and (match := pattern.fullmatch(old)) and match.expand(becomes) == new
               for files, pattern, becomes in rules)


def is_worth_it(line):
    """Code, not a comment, a directive, a table's text or an assert (which only aborts earlier)."""
    text = line.strip()
    return not re.match(r"(\*|//|/\*|#|DDP_ASSERT|_Static_assert|\"|const char|static const char)", text)


def mutants_of(path):
    """[(line number, text of the new line)] by universalmutator."""
    from universalmutator import mutator
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        source = file.readlines()
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutator.mutants_regexp(source, ["universal.rules", "c_like.rules", "c.rules"], ignorePatterns=[],
                                       ignoreStringOnly=True)
    # A mutant keeps the number of lines: asserts and traces say theirs, and equal code shall be found equal.
    return source, [(number, " ".join(text.splitlines()) + "\n") for number, text, *_ in found
                    if is_worth_it(source[number - 1])]


def scenario_files(path):
    """A file, or all scenarios of a folder."""
    return [path] if path.endswith(".yaml") else [os.path.join(where, file) for where, _, found in os.walk(path)
                                                  for file in found if file.endswith(".yaml")]


def key_of(path, source, number, line):
    """What a mutant's result is kept by: the file, and the function's text with the mutated line. That other functions of the
    file are edited changes little of what a mutant does; that its own is, may."""
    is_end = [text.startswith("}") for text in source]
    first = next((place + 1 for place in range(number - 2, -1, -1) if is_end[place]), 0)
    last = next((place + 1 for place in range(number - 1, len(source)) if is_end[place]), len(source))
    text = "".join(source[first:number - 1] + [line] + source[number:last])
    return hashlib.sha256((path + "\n" + text).encode()).hexdigest()[:20]


def sample(count, only, seed=SEED, least=3):
    """[(path, source, line number, new line)]: so many of all, at least so many a file."""
    chosen = []
    pools = {path: mutants_of(path) for path in sources()}
    total = sum(len(pool) for _, pool in pools.values())
    for path, (source, pool) in pools.items():
        if not path.startswith(only):
            continue
        wanted = max(least, round(count * len(pool) / max(1, total)))
        # More than are wanted: some do not compile, some are equivalent. A mutant's place does not depend on other
        # lines of its file, so that an edit elsewhere changes the sample little.
        pool.sort(key=lambda one, where=path, lines=source: hashlib.sha256(
            f"{seed} {where} {lines[one[0] - 1]} {one[1]}".encode()).digest())
        chosen.append((path, source, pool, wanted))
    return chosen


def limit(seconds, is_sanitized):
    """In a child: a mutant may allocate, write or run without end. A sanitizer reserves address space by terabytes."""
    if not is_sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def surroundings(folder, script):
    """The environment of a run: sanitizers write their reports to its folder; what NCCL's stand-in does."""
    path = f"log_path={folder}/sanitizer"
    return {**os.environ, "DDP_NCCL_STANDIN_SCRIPT": script, **{name: ":".join(filter(None, (os.environ.get(name), path)))
                             for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}}


def at_work(group):
    """How long a processor was busy with the processes of a session, or group, also with those that have ended since and were
    waited for; {thread: how long it waited for one}; and which processes there are."""
    ticks, waited, processes = 0, {}, set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            if group in (int(fields[2]), int(fields[3])):
                ticks += sum(map(int, fields[11:15]))
                processes.add((name, fields[19]))  # its start: numbers come again
                for task in os.listdir(f"/proc/{name}/task"):
                    with open(f"/proc/{name}/task/{task}/schedstat", encoding="utf-8") as file:
                        waited[task] = int(file.read().split()[1]) / 1e9
    return ticks / os.sysconf("SC_CLK_TCK"), waited, processes


def share():
    """Which part of a processor this machine has for one more thread, tried by being one for a moment."""
    begin, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < SHARE_SECONDS and time.monotonic() - begin < SHARE_SECONDS * 20:
        pass
    return min(1.0, (time.thread_time() - used) / (time.monotonic() - begin))


class Starved(Exception):
    """A run has had no processor for so long that nothing is known of its mutant."""


class Limit:
    """When a run is taken for one that does not end. Neither limit goes by the clock: on a machine with too much to do even a
    sound program looks like one that hangs."""

    def __init__(self, process, seconds):
        self.process = process
        self.left = BUSY * seconds  # of time in which it could have had a processor
        self.end = time.monotonic() + STARVED * BUSY * seconds

    def is_reached(self):
        """After a while: nothing of it worked, waited for a processor, began or ended; or its time is up."""
        begin = time.monotonic()
        before = at_work(self.process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(IDLE_SECONDS)
            return False
        now = at_work(self.process.pid)
        starved = sum(now[1].values()) - sum(before[1].get(task, 0) for task in now[1])
        # Of processes that have ended it is not known how long they waited, only that they were there.
        is_idle = now[0] - before[0] < IDLE_SECONDS * IDLE_SHARE and starved < IDLE_SECONDS * IDLE_SHARE and \
            now[2] == before[2]
        self.left -= (time.monotonic() - begin) * share()
        if not is_idle and self.left > 0 and time.monotonic() > self.end:
            raise Starved
        return is_idle or self.left <= 0


def call(command, folder, seconds, script=""):
    """(exit code, output), or (None, output) if it took too long; then all that it started is ended."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output, subprocess.Popen(
            command, stdout=output, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder,
            env=surroundings(folder, script), preexec_fn=lambda: limit(seconds, command[0].endswith("_sanitized")), start_new_session=True) as process:
        bound = Limit(process, seconds)
        try:
            while process.poll() is None and not bound.is_reached():
                pass
        finally:
            code = process.poll()
            if code is None:
                os.killpg(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read()


def verdict_of(cell):
    """The verdict of a failed cell, or of its second run, which starts from a checkpoint."""
    verdict = cell.get("found", cell["verdict"])
    restore = cell.get("restore")
    if verdict == "NONE" and restore is not None and restore["verdict"] != "NONE":
        return restore["verdict"]
    return "EVIDENCE" if verdict == "NONE" and "evidence was lost" in cell.get("reason", "") else verdict


def words_of(different):
    """What is said now and was not before, in short."""
    return " ".join(line[1:].strip() for line in different if line.startswith("+") and not line.startswith("+++"))[:400]


def run(program, folder, arguments, seconds, follow="", script=""):
    """None if all is as expected, else (scenario, outcome, verdict). follow: what else is asked: "said", that every
    word is the expected one; "seen", and what the monitor saw; "standin", the same on stand-ins; "check", that the runs are
    judged the same from their files. script: of NCCL's stand-in."""
    report = os.path.join(folder, "report.json")
    if os.path.exists(report):
        os.remove(report)
    keep = [] if follow in ("seen", "standin", "check") else ["--keep", "failed"]
    # said.py knows the folder by this name.
    code, _ = call([program, "run", *arguments, *keep, "--fail-fast", "--out", "a b/runs", "--json", report], folder,
                   seconds, script)
    try:
        if code is None:
            return ("-", "TIMEOUT", "NONE")
        if code in (0, 77) and not follow:
            return None
        with open(report, encoding="utf-8") as file:
            cells = json.load(file)["scenarios"]
        if code not in (0, 77):
            bad = min((cell for cell in cells if cell["outcome"] not in ("PASS", "SKIP")),
                      key=lambda cell: (cell["outcome"] != "FAIL", verdict_of(cell) == "NONE"))
            return (f"{bad['id']}.{bad['driver']}", bad["outcome"], verdict_of(bad))
        cells = [cell for cell in cells if cell["outcome"] != "SKIP"]
        different = []
        if cells and follow in ("said", "seen"):
            different = said.difference_of(SAID, cells, folder if follow == "seen" else None)
        if cells and follow == "standin":
            different = standin_said.difference_of(STANDIN_SAID, cells, folder)
        if different:
            return ("words", "WORDS", words_of(different))
        code = 0
        if follow == "check" and cells:
            code, _ = call([program, "check", "a b/runs"], folder, seconds)
        return None if code in (0, 77) else ("check", "TIMEOUT" if code is None else f"EXIT {code}", "NONE")
    except (OSError, ValueError, KeyError, StopIteration):
        return ("-", f"EXIT {code}", "NONE")
    finally:
        shutil.rmtree(os.path.join(folder, "a b"), ignore_errors=True)


def campaign(program, folder):
    """A fixed campaign: None, or what it found. All that it finds is what a file says."""
    plan = os.path.join(ROOT, "ci/campaigns/mutation.yaml")
    command = [program, "campaign", plan, "--out", os.path.join(folder, "campaign"), "-j", "1", "--fail-fast"]
    shutil.rmtree(os.path.join(folder, "campaign"), ignore_errors=True)
    code, output = call(command, folder, CELL_SECONDS)
    if code is None:
        return ("campaign", "TIMEOUT", "NONE")
    if code == 0:
        different = campaign_said.difference_of(CAMPAIGN_SAID, os.path.join(folder, "campaign/results.txt"))
        return ("words", "WORDS", words_of(different)) if different else None
    # What was found without a fault says most; then what was found beside a fault.
    verdict = next((found for pattern in (r"no fault: ", r"also found ", r"(?:FAIL|INCONCLUSIVE): .*: ")
                    if (found := re.search(pattern + r"([A-Z]+\.[A-Z_]+)", output))), None)
    outcome = {3: "ERROR", 4: "INCONCLUSIVE"}.get(code, "FAIL")
    if verdict is None and re.search(r"evidence was lost|ERROR run/\S+: line ", output):
        return ("campaign", outcome, "EVIDENCE")
    return ("campaign", outcome, verdict.group(1) if verdict else "NONE")


def proved(program, folder):
    """As run(), of `coll check` of every built-in algorithm."""
    with open(os.path.join(ROOT, "ddpcore/schedule/algorithm.def"), encoding="utf-8") as file:
        names = re.findall(r'^X\(\w+, *\w+, *"(\w+)"', file.read(), re.MULTILINE)
    report = os.path.join(folder, "coll.json")
    for name in names:
        code, _ = call([program, "coll", "check", name, "--worlds", "1-9", "--json", report], folder, CELL_SECONDS)
        if code is None:
            return (name, "TIMEOUT", "NONE")
        if code == 1:
            with open(report, encoding="utf-8") as file:
                wrong = [one["name"] for one in json.load(file)["properties"] if one["state"] == "FAIL"]
            return (name, "FAIL", f"COLL.{wrong[0].upper()}")
        if code != 0:
            return (name, {3: "ERROR", 4: "INCONCLUSIVE"}.get(code, f"EXIT {code}"), "NONE")
    return None


def asked(program, arguments, folder, seconds):
    """(exit code, all that is said)."""
    return call(["sh", "-c", 'exec "$@" 2>&1', "sh", program, *arguments], folder, seconds)


def proofs_of(program, exhibits, folder):
    """What `coll check` says of each exhibit, one after the other: (its name, what)."""
    for library, worlds in exhibits.items():
        code, text = asked(program, ["coll", "check", library, "--worlds", worlds, "--budget", "300"], folder, CELL_SECONDS)
        yield os.path.basename(library), f"exit {code}\n" + re.sub(r", [0-9.]+ s$", "", text, flags=re.MULTILINE)


def events_of(program, folder):
    """What `explain --events` says of some runs in sim, one after the other: (which, what)."""
    out = os.path.join(folder, "shown")
    shutil.rmtree(out, ignore_errors=True)
    files = [os.path.join(SCENARIOS, f"{name}.yaml") for name in SHOWN]
    asked(program, ["run", *files, "--driver", "sim", "-j", "1", "--out", out], folder, CELL_SECONDS * 3)
    for path in sorted(glob.glob(f"{out}/**/verdict.json", recursive=True)):
        record = os.path.dirname(path)
        code, text = asked(program, ["explain", record, "--events"], folder, CELL_SECONDS)
        yield os.path.relpath(record, out), f"exit {code}\n" + text.replace(out, "")
    shutil.rmtree(out, ignore_errors=True)


def reports_of(program, folder):
    """Reports of some runs in sim, as they are printed and in each form of files, without times: (which, what)."""
    out = os.path.join(folder, "reports")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    files = [os.path.join(SCENARIOS, f"{name}.yaml") for name in REPORTED]
    for changed in ([], ["--set", "expect.verdict=HANG.HOST"]):
        code, text = asked(program, ["run", *files, *changed, "--driver", "sim", "-j", "1", "-v", "--out", f"{out}/runs", "--json",
                                     f"{out}/json", "--junit", f"{out}/junit"], folder, CELL_SECONDS * 3)
        yield f"text {changed}", f"exit {code}\n" + re.sub(r"[0-9.]+ m?s\b", "", text).replace(out, "")
        for form in ("json", "junit"):
            with contextlib.suppress(OSError), open(f"{out}/{form}", encoding="utf-8") as file:
                text = re.sub(r'(wall_ms"?|time)(=|: )"?[0-9.e-]+', "", file.read())
                yield f"{form} {changed}", text.replace(out, "")
    for path in sorted(glob.glob(f"{out}/runs/**/verdict.json", recursive=True)):
        record = os.path.dirname(path)
        code, text = asked(program, ["explain", record], folder, CELL_SECONDS)
        yield os.path.relpath(record, out), f"exit {code}\n" + text.replace(out, "")
    shutil.rmtree(out, ignore_errors=True)


def on_words(made, expected):
    """As run(): the first answer that is not as the program itself gave it."""
    count = 0
    for name, text in made:
        count += 1
        if expected.get(name) != text:
            lines = zip(text.splitlines(), expected.get(name, "").splitlines())
            return (name, "WORDS", next((one for one, other in lines if one != other), text[-200:])[:200])
    return None if count == len(expected) else ("some", "WORDS", f"{count} answers, not {len(expected)}")


def on_damaged(program, records):
    """As run(), of damaged records. records: (folder, [(name, what)]), which the program itself has made."""
    out, made = records
    different = damaged.difference_of(DAMAGED, program, out, made, CELL_SECONDS * 3)
    return ("damaged", "WORDS", words_of(different)) if different else None


def sanitized(program, folder, arguments, build):
    """As run(), under AddressSanitizer and UBSan. build(program) links the mutant so."""
    program += "_sanitized"
    try:
        if not build(program):
            return None
        found = run(program, folder, arguments, CELL_SECONDS * 5)
        report = sanitizer_report(folder)
        return (found[0], "FAIL", report) if found is not None and found[1] == "ERROR" and report else found
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(program)


def sanitizer_report(folder):
    """What a sanitizer has said of a run in this folder, as a verdict, or None: a wrong access is what crashes
    elsewhere."""
    said = None
    for name in os.listdir(folder):
        if name.startswith("sanitizer."):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                found = re.search(r"ERROR: (Address|Leak)Sanitizer:? (\S+)|runtime error: (.*)", file.read())
            os.remove(os.path.join(folder, name))
            if found is not None and said is None:
                said = ("RESOURCE" if found.group(1) == "Leak" else "CRASH") + ".SANITIZER " + found.group(0)
    return said


def on_standin(path, program, folder, build):
    """As run(), of scenarios/device on stand-ins, or of those of ON_STANDIN_TOO. build(program) links the mutant so."""
    program += "_standin"
    if not build(program):
        return None
    options = ["--driver", "proc", "-j", "8"]
    if path in ON_STANDIN_TOO:
        names = [os.path.join(SCENARIOS, f"{name}.yaml") for name in ON_STANDIN_TOO[path]]
        return run(program, folder, [*names, "--device", "cuda", "--ranks-per-gpu", "64", *options], CELL_SECONDS * 3)
    names = [os.path.join(SCENARIOS, "device", f"{name}.yaml") for name in STANDIN]
    found = run(program, folder, [*names, *options], CELL_SECONDS * 3)
    for script, names in standin_said.RUNS if found is None else []:
        arguments = [*(os.path.join(ROOT, name) for name in names), *options]
        for _ in range(standin_said.TRIES):  # words that differ may be the machine's, once
            found = run(program, folder, arguments, CELL_SECONDS * 3, "standin", script)
            if found is None or found[1] != "WORDS":
                break
        if found is not None:
            return found
    return found


def is_healthy(path):
    """Whether a scenario's job has no fault, and nothing is to be found."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return not re.search(r"^(faults|canary):", text, re.MULTILINE) and re.search(r"\bverdict: *NONE\b", text) is not None


def healthy_first(files):
    """[the scenarios of healthy jobs, the others], without empty ones."""
    healthy = [one for one in files if is_healthy(one)]
    return list(filter(None, (healthy, [one for one in files if one not in healthy])))


def says_nothing(found):
    """Whether it was noticed, and no verdict says what is wrong."""
    _, outcome, verdict = found
    return outcome in ("WORDS", "INCONCLUSIVE") or outcome.startswith("EXIT ") or verdict.startswith("COLL.") or \
        (outcome == "FAIL" and verdict in ("NONE", "EVIDENCE"))


def some(scenarios, count):
    """So many of them, always the same, of all families."""
    return sorted(scenarios, key=lambda one: hashlib.sha256(os.path.basename(one).encode()).digest())[:count]


def parts(scenarios):
    """All of them, some of each family in each part."""
    mixed = some(scenarios, len(scenarios))
    return [mixed[start:start + AT_A_TIME] for start in range(0, len(mixed), AT_A_TIME)]


def judge(path, program, folder, scenarios, sanitize, standin, records, libraries):
    """How a mutant ends: {"by", "scenario", "outcome", "verdict"}. scenarios: those that run its line in sim. sanitize:
    see sanitized(); standin: see on_standin(), None: there are none; records: see on_damaged(); libraries: plug-ins, exhibits, and
    what the program itself says of these, of events and in reports."""
    plugins, exhibits, proofs, events, reports = libraries
    area, name = os.path.split(path)
    stages = []
    # A healthy job says best what a mutant of the core does.
    clean = [one for one in scenarios if is_healthy(one)]
    words = ["--driver", "sim", "-j", "1"]
    if clean and FOLDERS[area] is not None:
        stages.append(("scenario", lambda: run(program, folder, clean + words, CELL_SECONDS * 3)))
    if area in ("harness/evidence", "harness/order"):  # what they are for; any other run takes longer
        stages.append(("scenario", lambda: on_damaged(program, records)))
    stages.append(("campaign", lambda: campaign(program, folder)))
    is_reached = len(scenarios) > 0
    if area == "ddpcore/schedule":
        is_reached = True
        stages.append(("scenario", lambda: proved(program, folder)))
    if scenarios:
        follow = "seen" if area in ("harness/monitor", "harness/trace") else "said"
        stages += [("scenario", lambda part=part: run(program, folder, part + words, CELL_SECONDS * 3, follow))
                   for part in parts(scenarios)]
    if area in ON_DAMAGED and area not in ("harness/evidence", "harness/order"):
        stages.append(("scenario", lambda: on_damaged(program, records)))
    if scenarios and area in ON_CHECK:
        stages.append(("scenario", lambda: run(program, folder, some(scenarios, CHECKED) + words, CELL_SECONDS * 3, "check")))
    in_sanitizer = [*some(scenarios, SANITIZED), *words] if scenarios else None
    for place, part, names in ON_PROC:
        if area == place and part in name:
            is_reached = True
            launcher = ["--launcher", "mpirun"] if names == ["mpi"] else ["--driver", "proc"]
            files = [file for one in names for file in scenario_files(os.path.join(SCENARIOS, one))]
            # Of the judging side, sim has run most of it already.
            files = some(files, ON_PROC_TOO) if FOLDERS[area] is None and names is not OF_GUESTS else files
            for part_of in healthy_first(files):
                arguments = [*part_of, *launcher, "-j", "4"]
                stages.append(("scenario", lambda words=arguments: run(program, folder, words, CELL_SECONDS * 3)))
            if names is TCP:  # and what is not written for it
                others = [file for one in PROC for file in scenario_files(os.path.join(SCENARIOS, one)) if file not in files]
                arguments = [*some(others, ON_TCP_TOO), "--set", "job.transport=tcp", *launcher, "-j", "4"]
                stages.append(("scenario", lambda words=arguments: run(program, folder, words, CELL_SECONDS * 3)))
            if names in (PROC, TCP):
                in_sanitizer = [*some(files, SANITIZED), *launcher, "-j", "2"]
            break
    if path in ON_PLUGIN and plugins:
        is_reached = True
        files = [os.path.join(SCENARIOS, f"{one}.yaml") for one in WITH_PLUGIN]
        stages += [("scenario", lambda words=[*files, "--collective", one, "--set", "job.ranks=3", "--driver", "proc", "-j", "4"]:
                    run(program, folder, words, CELL_SECONDS * 3)) for one in plugins]
    if area == "harness/sums" and exhibits:
        is_reached = True
        stages.append(("scenario", lambda: on_words(proofs_of(program, exhibits, folder), proofs)))
    if area == "harness/trace":
        stages.append(("scenario", lambda: on_words(events_of(program, folder), events)))
    if area == "harness/report":
        is_reached = True
        stages.append(("scenario", lambda: on_words(reports_of(program, folder), reports)))
        stages.append(("scenario", lambda: on_words(events_of(program, folder), events)))
    if path in ON_GUEST:
        is_reached = True
        files = sorted(glob.glob(os.path.join(SCENARIOS, "guest/c*.yaml")))
        stages.append(("scenario", lambda words=[*files, "--driver", "proc", "-j", "4"]:
                       run(program, folder, words, CELL_SECONDS * 3)))
    if (path in ON_STANDIN or path in ON_STANDIN_TOO) and standin is not None:
        is_reached = True
        stages.append(("scenario", lambda: on_standin(path, program, folder, standin)))
    if in_sanitizer is not None:
        stages.append(("scenario", lambda: sanitized(program, folder, in_sanitizer, sanitize)))
    noticed = None
    for by, stage in stages:
        found = stage()
        if found is not None and found[1] not in ("FAIL", "INCONCLUSIVE", "WORDS"):
            found = stage()  # the machine's fault, perhaps
        if found is not None and found[1] == "ERROR" and FOLDERS[area] is not None:
            # The simulator has the job's memory: if that is damaged, real processes name the rank. So does a rank that
            # hosts the store, which the launcher has else.
            here = some(clean or scenarios, SANITIZED) or [os.path.join(SCENARIOS, one) for one in CLEAN]
            hosted = ["--set", "job.store=rank0"] if area == "ddpcore/store" else []
            named = run(program, folder, [*here, *hosted, "--driver", "proc", "-j", "4"], CELL_SECONDS * 3)
            by, found = ("scenario", named) if named is not None and named[1] == "FAIL" else (by, found)
        if found is not None and says_nothing(found):
            noticed = noticed or (by, found)
        elif found is not None and (noticed is None or found[1] == "FAIL"):
            return {"by": by, "scenario": found[0], "outcome": found[1], "verdict": found[2]}
    if noticed is not None:
        by, found = noticed
        return {"by": by, "scenario": found[0], "outcome": found[1], "verdict": found[2]}
    return {"by": "survived" if is_reached else "unreached", "scenario": "", "outcome": "", "verdict": ""}


def is_right(path, result):
    """Whether the verdict's family is one that a mutant of this file should get."""
    families = FILES.get(path, FOLDERS[os.path.dirname(path)])
    if result["by"] not in ("scenario", "campaign"):
        return False
    if families is None:  # the judging side: noticed is enough
        return True
    # It is what ddprove itself said of a job: not other words beside the verdict of a planned fault, not an ERROR, not
    # evidence that was lost, not a sanitizer's report.
    family, _, kind = result["verdict"].partition(".")
    return result["outcome"] == "FAIL" and family in families and not kind.startswith("SANITIZER")


class Units:
    """The unit tests, for what no scenario, campaign or record has noticed."""

    def __init__(self):
        self.builder = Builder("units", "-DDDPROVE_BUILD_TESTS=ON", programs=UNITS)
        with tempfile.TemporaryDirectory() as folder:
            # Of those that pass here as they are; a unit has a limit of memory, which not each can do with.
            self.names = [name for name in UNITS if self.passes(f"{self.builder.tree}/bin/{name}", folder)]
        self.symbols = {name: self.defined(f"{self.builder.tree}/bin/{name}") for name in self.names}
        print(f"units: {len(self.names)} of {len(UNITS)} pass here", flush=True)

    @staticmethod
    def passes(program, folder):
        """Whether all its tests do."""
        code, _ = call([program, "--gtest_brief=1"], folder, CELL_SECONDS * 3)
        return code == 0

    @staticmethod
    def defined(path):
        """The names that an object or a program defines for others."""
        done = subprocess.run(["nm", "-g", "--defined-only", path], stdout=subprocess.PIPE, text=True, check=True)
        return {line.split()[-1] for line in done.stdout.splitlines()}

    def judge(self, path, text, folder):
        """{} or {"by": "unit", ...}: of the units that have the file in them, the first one that fails twice."""
        built = self.builder.compile(path, text, folder)
        program = os.path.join(folder, "unit")
        mine = self.defined(built) if built is not None else set()
        for name in (name for name in self.names if mine & self.symbols[name]):
            if self.builder.build(built, program, name) and not self.passes(program, folder) and \
                    not self.passes(program, folder):
                return {"by": "unit", "scenario": name, "outcome": "FAIL", "verdict": "NONE"}
        return {}


class Session:
    """Mutants one after the other, in a few threads; results are appended as they come."""

    def __init__(self, end, is_again, seed=SEED):
        self.builder = builder = Builder("tree")
        self.sanitizing = Builder("sanitized", "-DDDPROVE_SANITIZE=address;undefined")
        self.standins = Builder.on_standins()
        os.environ["DDPROVE_MPI"] = f"{builder.tree}/lib/libddp_mpi.so"
        builder.call(["cmake", "--build", builder.tree, "--target", *GUESTS])
        os.environ["PATH"] = f"{builder.tree}/bin:{os.environ['PATH']}"  # scenarios name a guest's program without a folder
        out = os.path.join(BUILD, "damaged")
        self.records = (out, damaged.record(f"{builder.tree}/bin/ddprove", ROOT, out))
        exhibits, program = builder.exhibits(), f"{builder.tree}/bin/ddprove"
        with tempfile.TemporaryDirectory() as folder:
            self.libraries = (builder.plugins(), exhibits, dict(proofs_of(program, exhibits, folder)),
                              dict(events_of(program, folder)), dict(reports_of(program, folder)))
        self.units = None  # made when they are asked
        self.argued = argued()
        self.reach = builder.reach(sources())
        self.end = end
        self.lock = threading.Lock()
        self.commit = builder.call(["git", "-C", ROOT, "describe", "--always", "--dirty"]).strip()
        self.known = {}
        self.drawn = set()  # by the whole sample first
        self.tuned_on = set()  # left out of another seed's sample
        files = [KEPT, RESULTS]
        others = sorted(set(glob.glob(KEPT.replace(".jsonl", "*.jsonl")) + glob.glob(RESULTS.replace(".jsonl", "*.jsonl"))))
        if seed != SEED:
            files = [path.replace(".jsonl", f"_{seed}.jsonl") for path in files]
            for path in set(others) - set(files):
                self.tuned_on.update(entry["key"] for entry in self.read(path))
        else:
            self.drawn = {entry["key"] for path in others for entry in self.read(path)}
        # The last one wins: what was judged here, and lately.
        for path in (files if seed != SEED else [*(path for path in others if path not in files), *files]):
            self.known.update({entry["key"]: entry for entry in self.read(path)})
        # An argument is asked for anew: it may have been withdrawn.
        self.known = {key: entry for key, entry in self.known.items() if entry["by"] != "argued" and
                      not (is_again and entry["by"] in ("survived", "unreached", "unit") and entry.get("on") != self.commit)}
        self.results = files[1]
        self.done = []
        self.left = []  # (entry, the file's text) that nothing but a unit may notice

    @staticmethod
    def read(path):
        """The results of a file, if there is one."""
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def keep(self, entry):
        """Remember a result."""
        with self.lock:
            self.done.append(entry)
            if self.known.get(entry["key"]) is not entry:
                self.known[entry["key"]] = entry
                with open(self.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")

    def file(self, path, source, pool, wanted):
        """The wanted number of mutants of one file that are neither refused nor equivalent."""
        folder = tempfile.mkdtemp(prefix="mutation-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        seen = {self.builder.original_code(path, folder)}
        count = 0
        keyed = [(key_of(path, source, *one), *one) for one in pool]
        for key, number, line in sorted(keyed, key=lambda one: one[0] not in self.drawn):
            if (count >= wanted and key not in self.drawn) or time.time() > self.end:
                break
            text = "".join(source[:number - 1] + [line] + source[number:])
            if key in self.tuned_on:
                continue
            entry = self.known.get(key)
            if is_argued(self.argued, path, source, number, " ".join(line.split())):
                entry = {"key": key, "file": path, "line": number, "old": source[number - 1].strip(),
                         "new": line.strip(), "by": "argued", "scenario": "", "outcome": "", "verdict": ""}
            if entry is None:
                try:
                    entry = {"key": key, "file": path, "line": number, "old": source[number - 1].strip(),
                             "new": line.strip(), "on": self.commit, **self.mutant(path, number, text, folder, seen)}
                except Starved:
                    print(f"{path}:{number}: not judged, since the machine has too much to do; a later call does")
                    count += 1
                    continue
            elif entry["by"] == "refused":
                continue
            self.keep(entry)
            if entry["by"] in ("survived", "unreached") and "units_on" not in entry:
                self.left.append((entry, text))
            count += 1 if entry["by"] not in LEFT_OUT else 0
        shutil.rmtree(folder, ignore_errors=True)

    def ask_units(self, entry, text):
        """Whether a unit notices it, which is asked once."""
        if time.time() > self.end:
            return
        with tempfile.TemporaryDirectory(prefix="mutation-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            try:
                found = self.units.judge(entry["file"], text, folder)
            except Starved:
                return
        with self.lock:
            self.done.remove(entry)
        self.keep({**entry, **found, "units_on": self.commit})

    def mutant(self, path, number, text, folder, seen):
        """The result of one mutant."""
        built = self.builder.compile(path, text, folder)
        if built is None:
            return {"by": "refused", "scenario": "", "outcome": "", "verdict": ""}
        code = self.builder.code_of(built)
        if code in seen:
            return {"by": "equivalent", "scenario": "", "outcome": "", "verdict": ""}
        seen.add(code)
        program = os.path.join(folder, "ddprove")
        if not self.builder.build(built, program):
            return {"by": "refused", "scenario": "", "outcome": "", "verdict": ""}

        def link_by(builder):
            def link(name):
                other = builder.compile(path, text, folder)
                return other is not None and builder.build(other, name)
            return link if builder is not None else None
        return judge(path, program, folder, self.reach.of_line(path, number), link_by(self.sanitizing),
                     link_by(self.standins), self.records, self.libraries)


def print_table(entries):
    """A line a file, and the sums of both sides."""
    print(f"{'file':44} {'mutants':>7} {'right':>6} {'other':>6} {'unit':>5} {'survived':>8} {'unreached':>9}")
    sums = {}
    for path in sorted({entry["file"] for entry in entries}):
        mine = [entry for entry in entries if entry["file"] == path and entry["by"] not in LEFT_OUT]
        unit, survived, unreached = (sum(entry["by"] == by for entry in mine) for by in ("unit", "survived", "unreached"))
        right = sum(is_right(path, entry) for entry in mine)
        row = (len(mine), right, len(mine) - right - unit - survived - unreached, unit, survived, unreached)
        print(f"{path:44} {row[0]:7} {row[1]:6} {row[2]:6} {row[3]:5} {row[4]:8} {row[5]:9}")
        side = path.split("/")[0]
        sums[side] = tuple(map(sum, zip(sums.get(side, (0,) * 6), row)))
    for side, (count, right, other, unit, survived, unreached) in sums.items():
        print(f"{side}: {count} mutants, {100 * (right + other) / max(1, count):.1f} % killed by scenarios and campaign, "
              f"{100 * right / max(1, count):.1f} % with a right family, {unit} only by a unit test, {survived} survived, "
              f"{unreached} in lines that no scenario runs in sim")


def main():
    """Sample, run, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--budget", type=float, default=3600)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=SEED, help="another sample, none of whose mutants was looked at")
    parser.add_argument("--again", action="store_true", help="judge those again that nothing noticed")
    parser.add_argument("--survivors", action="store_true", help="print those that nothing noticed")
    options = parser.parse_args()
    try:
        import universalmutator  # noqa: F401  pylint: disable=unused-import
    except ImportError:
        print("universalmutator is not installed (pip install universalmutator)")
        return 77
    session = Session(time.time() + options.budget, options.again, options.seed)
    # Another sample is small: each file has its share alone.
    files = sample(options.count, options.only, options.seed, 3 if options.seed == SEED else 1)
    if options.seed == SEED:
        files.sort(key=lambda file: -file[3])  # the longest first
    else:  # what is judged within the budget is a random part
        files.sort(key=lambda file: hashlib.sha256(f"{options.seed} {file[0]}".encode()).digest())
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(session.file, *file) for file in files]:
            future.result()
        if session.left and time.time() < session.end:
            session.units = Units()
        for future in [pool.submit(session.ask_units, *one) for one in session.left]:
            future.result()
    print_table(session.done)
    for entry in session.done if options.survivors else []:
        if entry["by"] in ("survived", "unreached", "unit"):
            print(f"{entry['by']} {entry['line']}: {entry['file']}: {entry['old']}  ->  {' '.join(entry['new'].split())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
