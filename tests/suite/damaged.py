"""What ddprove says of damaged records is what tests/data/damaged.txt has. Some runs are recorded in the simulator; then, for
every kind of line of a trace, lines are taken out, written twice, moved, altered in each of their arguments, or made
unreadable; also of the trace of a run that went on from a checkpoint. Of further runs, of all kinds of jobs, it is the kinds of
lines that no earlier run has, and each argument of all others. Each damage is judged as it would lie there if the recorder had written so: events are numbered anew and the
seals are right, so that not they speak but who needs the evidence. The dumped schedules are damaged in the same way. suite.evidence asks that no such record passes; here it
is compared who says what.

What may pass although it was altered is in the table PASSES, with the reason why no verdict can depend on it; any other record
that passes fails the test.

Usage: damaged.py DDPROVE ROOT OUT FILE [--write]

--write makes FILE of what is said now: look at the difference before you commit it.
"""
import ctypes
import ctypes.util
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys

import said

# (scenario, its first cell's settings)
RUNS = [("equivalence/combined", []), ("unused/by_rank", []), ("uneven/join_checkpoint", []), ("value/lost", []),
        ("mismatch/count", []), ("mismatch/message", []), ("crash/sigkill_in_allreduce", ["job.ranks=3"])]
# Whose lines are damaged in part.
MORE = [(scenario, []) for scenario in (
    "survive/killed", "groups/healthy", "trainer/drift_alarm", "unused/flag_off_one_rank", "equivalence/pytorch_buckets",
    "mismatch/broadcast_not_sent", "mismatch/part_not_taken", "several/batch_then_flip", "hook/local_sgd", "hook/powersgd",
    "hook/quantize_flipped", "mixed/beside", "scaler/skipped_beside_nan", "models/sync_batchnorm", "unused/static_graph",
    "posts/in_place", "slow/two_ranks", "stop/two_ranks", "hang/two_ranks", "mismatch/extra_under_join", "groups/opposite")]
MORE += [("trainer/evaluate", ["job.ranks=3"]), ("io/disk_full", []), ("resource/no_memory", ["faults.0.do.no_memory=90"])]
# Beginnings of the names of runs in which a fault is found.
FAULTY = ("value.lost", "mismatch.", "crash.", "survive.", "unused.flag_off_one_rank", "several.", "hook.quantize_flipped",
          "scaler.", "slow.", "stop.", "hang.", "groups.opposite", "trainer.drift_alarm", "io.", "resource.")
# (what was done, where: by the run's name, None: anywhere; why that may pass)
PASSES = [(re.compile(what), runs, why) for what, runs, why in (
    # Anywhere.
    (r".* behind the next", None, "the two lines say the same in either order, and their times are altered along with them: what has to "
     "come before what, harness/evidence/order.c asks for"),
    (r".* a micro-batch later", None, "of what is recorded once a step, nobody reads in which micro-batch it lies"),
    (r"rank\.begin pid .*", None, "a number of the system, for people who look at a core dump"),
    (r"phase (waited|starved) .*", None, "nanoseconds, which are compared with budgets of milliseconds; they may not shrink, nor be longer than "
     "the job"),
    (r"h finish start .*", None, "from when the report counts its times; no verdict has it, and it may not lie behind the first event"),
    (r"h diagnosis (detect|micro) .*", None, "a time is compared with a budget alone, and may not be longer than the job; in which micro-batch "
     "something was found is said, and not expected"),
    (r"coll\.done status (other|altered)", FAULTY, "a collective that failed, of a rank that ended with an error: whether by a revocation or a "
     "death on the way is a matter of moments, and no verdict asks"),
    (r"h diagnosis (mode|phase) other", FAULTY, "by which of the monitor's rules it was named, and in which phase that rank was at that moment, "
     "no line of a rank has; a scenario states them where they matter"),
    (r"h diagnosis victim .*", None, "victims of crashes and hangs are found anew from the record (harness/cell/run.c); of a mismatch they are said, "
     "and compared where a scenario states them"),
    (r"schedules: (first schedule last|recv deps altered)", None, "the schedules are as good in another order, and with an order of steps that "
     "is stricter than needed"),
    # A run that goes well, but for a pass behind which nothing is reduced.
    (r"(one|no|no last) (grad\.ready|param\.unused)( less)?", ("equivalence.combined", "uneven.join_checkpoint"), "a micro-batch before the "
     "last: its gradients are no result, and whether a parameter is unused the whole step decides"),
    (r"(grad\.ready hash|param\.unused param) .*", ("equivalence.combined", "uneven.join_checkpoint"), "as above"),
    # Runs that end by a fault, which was found; the altered line adds nothing to what was found, nor takes anything from it.
    (r"(rank\.holds|rank\.end messages|rank\.error|no rank\.holds|(no last|one) rank\.(holds|error)).*", FAULTY, "a rank that failed: what it still "
     "holds, and how many messages it came to, is judged of ranks that end well; its other errors say the same"),
    (r"(no last coll\.(done|post|waited)|coll\.(done out|post in)|grad\.ready|no last grad\.ready|one (grad\.(ready|final)|loss|optimizer\.state|"
     r"param\.updated) less|grad\.final hash zero|grad\.ready hash zero|bucket\.param|buffer\.synced|join (kind|active|divisor)|revoke rank|op\.skipped|"
     r"no param\.error|one param\.error).*", FAULTY, "the step in which a fault acted, or one behind it: ranks did not come through it whole, so "
     "what is there of it, and by whom, is not known beforehand; of what the fault did the verdict is of other lines"),
    (r"(no h diagnosis|h diagnosis (seq|params) .*|h diagnosis verdict other|message\.(ahead|astray|behind) .*)", FAULTY, "the checkers find the same culprit in what ranks "
     "recorded, or the altered number is another one that fits"),
)]
FAR = 4294967295  # a number that nothing has
SCHEDULES = ("equivalence/combined", "value/lost")  # whose dumped schedules are damaged, too
EVENT = re.compile(r" *\d+ r(\d+)#(\d+) +\d+\.\d+ +\S+ +(\S+)(.*)")
OWN = re.compile(r" *\d+ h (\S+)(.*)")
ARGUMENT = re.compile(r"([a-z_0-9]+)=(\S*)")
COLUMNS = 6  # of a rank and its event's number


class Seal:
    """The digest of lines, as harness/trace/trace_print.c has it."""

    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    library.XXH3_64bits_withSeed.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)

    def __init__(self):
        self.digest = 0

    def add(self, line):
        """One more line."""
        text = line.encode()
        if text and not line.startswith("#"):
            self.digest = self.library.XXH3_64bits_withSeed(text, len(text), self.digest)


def kind_of(line):
    """An event's name, "h <name>" of what the harness wrote itself; None: neither."""
    event, own = EVENT.fullmatch(line), OWN.fullmatch(line)
    return event.group(3) if event else f"h {own.group(1)}" if own else None


def sealed(lines):
    """The lines with events numbered anew and seals that fit."""
    counts, seals, own, out = {}, {}, Seal(), []
    for line in lines:
        event = EVENT.fullmatch(line)
        if event:
            rank = event.group(1)
            counts[rank] = counts.get(rank, 0) + 1
            before, after = f" r{rank}#{event.group(2)}", f" r{rank}#{counts[rank]}"
            line = line.replace(before.ljust(COLUMNS + 3), after.ljust(COLUMNS + 3), 1)
            seals.setdefault(rank, Seal()).add(line)
        elif " h end " in line:
            rank = re.search(r"rank=(\d+)", line)
            rank = rank.group(1) if rank else "0"
            line = re.sub(r"events=\d+", f"events={counts.get(rank, 0)}", line)
            line = re.sub(r"digest=[0-9a-f]{16}", f"digest={seals.get(rank, Seal()).digest:016x}", line)
            own.add(line)
        elif " h seal " in line:
            line = re.sub(r"digest=[0-9a-f]{16}", f"digest={own.digest:016x}", line)
        else:
            own.add(line)
        out.append(line)
    return out


# Words that the recorded traces have for an argument, in order.
WORDS = {}


def learn_words(lines):
    """What stands for words in a trace."""
    for line in lines:
        for name, value in ARGUMENT.findall(line):
            if not re.fullmatch(r"-?\d+|[0-9a-f]{16}|.*[/,].*", value) and name not in ("digest", "events", "text"):
                WORDS.setdefault(name, set()).add(value)


def altered(value):
    """Another value of the same form."""
    if re.fullmatch(r"[0-9a-f]{16}", value):
        return ("1" if value[0] == "0" else "0") + value[1:]
    if re.fullmatch(r"-?\d+", value):
        return str(int(value) + 1)
    return {"OK": "TIMEOUT"}.get(value, value.replace("sum", "max", 1) if "sum" in value else "")


def others(name, value):
    """[(what, value)] of an argument: what else could stand there."""
    if name in ("digest", "events", "text"):
        return
    yield f"{name} altered", altered(value)
    words = sorted(WORDS.get(name, ()))
    if value in words and len(words) > 1:  # one that can be read, and is another one
        yield f"{name} other", words[(words.index(value) + 1) % len(words)]
    if re.fullmatch(r"0{8}[0-9a-f]{8}", value):
        yield f"{name} low altered", value[:-1] + ("0" if value[-1] == "1" else "1")
    if re.fullmatch(r"[1-9]\d*", value):
        yield f"{name} less", str(int(value) - 1)
    if re.fullmatch(r"\d+(,\d+)+", value):
        yield f"{name} shorter", value[:value.rindex(",")]


def places_of(lines):
    """Where the lines of each kind are."""
    places = {}
    for at, line in enumerate(lines):
        kind = kind_of(line)
        if kind is not None and kind != "h seal":
            places.setdefault(kind, []).append(at)
    return places


def far(lines, kind, ats):
    """[(what, the trace's lines)]: of each number of a kind's lines the highest and one more, and one that nothing has."""
    for name, value in ARGUMENT.findall(lines[ats[-1]]):
        if not re.fullmatch(r"\d{1,9}", value) or name in ("digest", "events"):
            continue
        values = [(int(found.group(1)), at) for at in ats if (found := re.search(rf" {name}=(\d{{1,9}})(?= |$)", lines[at]))]
        highest, at = max(values)
        for what, now in (("highest and one more", highest + 1), ("far", FAR)):
            yield f"{kind} {name} {what}", [*lines[:at], lines[at].replace(f" {name}={highest}", f" {name}={now}", 1), *lines[at + 1:]]


PLACE = re.compile(r"( *\d+ r\d+#\d+ +)(\d+)\.(\d+) (\S+)( +)")
PHASES = {"backward": "forward", "forward": "backward"}


def elsewhere(lines, kind, at):
    """[(what, the trace's lines)]: an event in another step, micro-batch or phase than it was."""
    found = PLACE.match(lines[at])
    if found is None:
        return
    before, step, micro, phase, gap = found.groups()
    rest = lines[at][found.end():]
    for what, now in (("a step later", f"{int(step) + 1}.{micro} {phase}{gap}"), ("in a far step", f"999999.{micro} {phase}{gap}"),
                      ("in the first step", f"0.{micro} {phase}{gap}"),
                      ("a micro-batch later", f"{step}.{int(micro) + 1} {phase}{gap}"),
                      ("in another phase", f"{step}.{micro} " + PHASES.get(phase, "loss").ljust(len(phase + gap) - 1) + " ")):
        if now != lines[at][found.start(2):found.end()]:
            yield f"{kind} {what}", [*lines[:at], before + now + rest, *lines[at + 1:]]


def in_part(lines, known, places=1):
    """[(what, the trace's lines)] of a trace: each argument of the last line of a kind, that line in so many other places, and
    all damages of the kinds that are not known."""
    new = {kind for kind in places_of(lines) if kind not in known or kind == "h diagnosis"}
    yield from (one for one in damages(lines, False, new))
    for kind, ats in sorted(places_of(lines).items()):
        for found in ARGUMENT.finditer(lines[ats[-1]]) if kind not in new and not kind.startswith("h ") else []:
            for what, value in others(*found.groups()):
                now = lines[ats[-1]][:found.start(2)] + value + lines[ats[-1]][found.end(2):]
                yield f"last {kind} {what}", [*lines[:ats[-1]], now, *lines[ats[-1] + 1:]]
        if kind not in new:
            yield from itertools.islice(elsewhere(lines, f"last {kind}", ats[-1]), places)


def damages(lines, is_text, kinds=None):
    """[(what, the trace's lines)] of a trace. is_text: lines that cannot be read, too. kinds: of which lines; None: all."""
    for kind, ats in sorted(places_of(lines).items()):
        if kinds is not None and kind not in kinds:
            continue
        middle, last = ats[len(ats) // 2], ats[-1]
        line, gone = lines[middle], set(ats)
        yield f"no {kind}", [one for at, one in enumerate(lines) if at not in gone]
        if len(ats) > 1:
            yield f"one {kind} less", lines[:middle] + lines[middle + 1:]
            yield f"no last {kind}", lines[:last] + lines[last + 1:]
        yield f"one {kind} twice", lines[:middle + 1] + lines[middle:]
        if not kind.startswith("h "):
            rank = EVENT.fullmatch(line).group(1)
            other = next((at for at in range(middle + 1, len(lines)) if f" r{rank}#" in lines[at]), None)
            if other is not None:
                swapped = list(lines)
                swapped[middle], swapped[other] = swapped[other], swapped[middle]
                yield f"{kind} behind the next", swapped
        for found in ARGUMENT.finditer(line):
            name, value = found.groups()
            if name in ("digest", "events", "text"):
                continue
            for what, now in others(name, value):
                yield (f"{kind} {what}", lines[:middle] + [line[:found.start(2)] + now + line[found.end(2):]] +
                       lines[middle + 1:])
            if re.fullmatch(r"[0-9a-f]{16}", value) and value != "0" * 16:
                yield f"{kind} {name} zero", [*lines[:middle], line[:found.start(2)] + "0" * 16 + line[found.end(2):], *lines[middle + 1:]]
            if kind == "h diagnosis" and kinds is None:
                yield f"{kind} without {name}", [*lines[:middle], line[:found.start()] + line[found.end():].lstrip(), *lines[middle + 1:]]
                yield f"{kind} {name} bad", [*lines[:middle], line[:found.end()] + "/x" + line[found.end():], *lines[middle + 1:]]
        first = ARGUMENT.search(line)
        if is_text and first is not None:
            for what, text in [("without", line[:first.start()] + line[first.end():].lstrip()),
                               ("bad", line[:first.end()] + "/x"), ("long", line.split(" text=")[0] + " x=0" * 40)]:
                yield f"{kind} {what}", lines[:middle] + [text] + lines[middle + 1:]
            yield from far(lines, kind, ats)
        yield from elsewhere(lines, kind, middle)
    if kinds is not None:
        return
    yield "a line of no kind", lines[:-1] + [re.sub(r" h seal .*", " h other x=1", lines[-1])] + lines[-1:]
    yield "a line too many", lines + lines[-1:]
    yield "cut short", lines[:len(lines) // 2]


def damaged_schedules(folder):
    """[(what, lines)] of the schedules that rank 1 dumped."""
    with open(os.path.join(folder, "schedules", "rank1.txt"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for kind in ("schedule", "send", "recv", "recv_reduce", "copy"):
        at = next((at for at, line in enumerate(lines) if kind in line.split()[:3]), None)
        if at is None:
            continue
        yield f"one {kind} less", lines[:at] + lines[at + 1:]
        yield f"one {kind} twice", lines[:at + 1] + lines[at:]
        for found in re.finditer(r"(\w+)=(?:\w+:)?(?:\d+\+)?(\d+)( |$)", lines[at]):
            now = lines[at][:found.start(2)] + str(int(found.group(2)) + 1) + lines[at][found.end(2):]
            yield f"{kind} {found.group(1)} altered", lines[:at] + [now] + lines[at + 1:]
    starts = [at for at, line in enumerate(lines) if line.startswith("schedule ")] + [len(lines)]
    for number, (begin, end) in enumerate(zip(starts, starts[1:]), 1):
        yield f"schedule {number} less", lines[:begin] + lines[end:]
    yield "first schedule last", lines[starts[1]:] + lines[:starts[1]]
    yield "cut short", lines[:len(lines) // 2]
    yield "empty", []


def with_schedules(folder, lines):
    """The lines of a trace with the digest of the dumped schedules that lie in the folder."""
    digest, size_bytes, names = 0, 0, sorted(os.listdir(os.path.join(folder, "schedules")))
    for name in names:
        with open(os.path.join(folder, "schedules", name), "rb") as file:
            data = file.read()
        digest = Seal.library.XXH3_64bits_withSeed(data, len(data), digest)
        size_bytes += len(data)
    return [re.sub(r"(h files name=schedules) .*", rf"\1 count={len(names)} bytes={size_bytes} digest={digest:016x}", line)
            for line in lines]


def put(path, lines):
    """A file in the place of a hard link."""
    os.remove(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))


class Records:
    """Damaged copies of folders, in the order in which they are judged."""

    def __init__(self, out):
        self.out = out
        self.made = []
        os.makedirs(os.path.join(out, "damaged"))

    def add(self, folder, what):
        """A copy, whose files are links."""
        name = f"{len(self.made):05d}"
        self.made.append((name, what))
        to = os.path.join(self.out, "damaged", name)
        shutil.copytree(folder, to, copy_function=os.link)
        return to

    def add_traces(self, folder, what, found, trace="trace.txt"):
        """A copy for each of some damaged traces."""
        for which, damaged in found:
            to = self.add(folder, f"{what}, {which}")
            put(os.path.join(to, trace), damaged if which == "cut short" else sealed(damaged))


def trace_of(folder):
    """Lines of its trace."""
    with open(os.path.join(folder, "trace.txt"), encoding="utf-8") as file:
        return file.read().splitlines()


def record(program, root, out):
    """Record, and damage: [(name of a folder, what)] in the order in which they are judged."""
    shutil.rmtree(out, ignore_errors=True)
    records = Records(out)
    known = set()
    for scenario, settings in RUNS + MORE:
        sets = [word for one in settings for word in ("--set", one)]
        subprocess.run([program, "run", os.path.join(root, "scenarios", f"{scenario}.yaml"), "--driver", "sim", "-j", "1",
                        "--out", "recorded", *sets], cwd=out, check=True, stdout=subprocess.DEVNULL)
    for place, _, files in os.walk(os.path.join(out, "recorded")):
        for name in files:
            if name == "trace.txt":
                learn_words(trace_of(place))
    for scenario, settings in RUNS + MORE:
        run_id = scenario.replace("/", ".")
        folder = min(place for place, _, files in os.walk(os.path.join(out, "recorded", run_id))
                     if "trace.txt" in files and "restore" not in os.path.basename(place))
        lines = trace_of(folder)
        is_whole = (scenario, settings) in RUNS
        records.add_traces(folder, run_id, damages(lines, scenario == RUNS[0][0]) if is_whole else in_part(lines, known))
        known.update(places_of(lines))
        for what, damaged in damaged_schedules(folder) if scenario in SCHEDULES else []:
            to = records.add(folder, f"{run_id}, schedules: {what}")
            put(os.path.join(to, "schedules", "rank1.txt"), damaged)
            put(os.path.join(to, "trace.txt"), sealed(with_schedules(to, lines)))
        restored = os.path.join(folder, "restore")
        if os.path.isdir(restored):
            lines = trace_of(restored)
            records.add_traces(folder, f"{run_id}, restored", in_part(lines, known, 3), "restore/trace.txt")
            known.update(places_of(lines))
    return records.made


def core_of(out):
    """What the runs were computed with."""
    scenario = RUNS[0][0].replace("/", ".")
    place = next(place for place, _, files in os.walk(os.path.join(out, "recorded", scenario)) if "verdict.json" in files)
    with open(os.path.join(place, "verdict.json"), encoding="utf-8") as file:
        return said.computed_with(json.load(file)["capsule"])


def judged(program, out, made, seconds=0):
    """What is said of each damage. seconds: of a processor, which the program may take; 0: as long as it likes."""
    def limit():
        if seconds > 0:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    done = subprocess.run([program, "check", os.path.join(out, "damaged")], check=False, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=out, preexec_fn=limit)
    blocks = []
    for line in done.stdout.splitlines():
        if line.startswith(("PASS ", "FAIL ", "INCONCLUSIVE ", "ERROR ")):
            blocks.append([])
        if blocks and not line.startswith(("    record:", "    reproduce:")) and (line.startswith("    ") or not blocks[-1]):
            blocks[-1].append(said.plain(line.replace(os.path.join(out, "damaged"), "OUT")))
    lines = [core_of(out)]
    if len(blocks) != len(made):
        return [*lines, f"of {len(made)} records {len(blocks)} were judged, exit {done.returncode}"]
    for (name, what), block in zip(made, blocks):
        outcome = re.sub(r"^(\S+) +sim +\S+(?: \[.*?\])?(?=  |$)", r"\1", block[0])
        words = [outcome, *(one.replace(f"OUT/{name}/", "").strip() for one in block[1:])]
        lines.append(f"{what}: " + " | ".join(words))
    return lines


def is_allowed(line):
    """The record may pass."""
    run, what = line.split(": PASS", 1)[0].split(", ", 1)
    what = re.sub(r"^restored, ", "", what)
    return any((runs is None or run.startswith(runs)) and pattern.fullmatch(re.sub(r"^last ", "", what)) for pattern, runs, _ in PASSES)


def difference_of(expected, program, out, made, seconds=0):
    """Lines of a difference with the file."""
    with open(expected, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return said.changes(lines, judged(program, out, made, seconds))


def main():
    """Compare, or write."""
    program, root, out, expected = (os.path.abspath(arg) for arg in sys.argv[1:5])
    made = record(program, root, out)
    if "--write" in sys.argv:
        with open(expected, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in judged(program, out, made)))
    with open(expected, encoding="utf-8") as file:
        passed = [line for line in file.read().splitlines() if ": PASS" in line and not is_allowed(line)]
    print("\n".join(f"passes, and no reason is known: {line}" for line in passed[:50]))
    if passed or "--write" in sys.argv:
        return 1 if passed else 0
    different = difference_of(expected, program, out, made)
    print("\n".join(different[:200]))
    print(f"{len(made)} damaged records; what is said of them is {'another thing' if different else 'as expected'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
