"""Whatever call on a file fails while a command writes, the command says so and is no success.

For every command that writes files, and every kind of call: the first call on a file below the command's folder fails,
then the second, and so on until none is left to fail (fail_call.c). Each time: the exit code is that of an error or of lost
evidence, the file and the reason are named, no process ended by a signal or came to no end, no temporary file is left, a
file that was there before is whole, and `check` of what is left is no PASS. Calls that were only interrupted, or wrote a
part, change nothing at all. What is printed to a full device is no success, either.

Usage: sweep.py DDPROVE FAIL_CALL ROOT OUT
"""
import errno
import multiprocessing.pool
import os
import re
import shutil
import subprocess
import sys

ddprove, fail_call, root, out = (os.path.abspath(arg) for arg in sys.argv[1:5])
SEEN_BYTES = 8 + 4096
HANGS_AFTER_S = 120
SILENT = ("coll",)  # what prints nothing if all is well
REPEATED = ("run_unkept",)  # what is done once more, with all its files, if it went wrong
# A call, what it fails with, whether all later ones fail, too.
FAULTS = [("create", errno.EACCES, False), ("create", errno.EMFILE, True), ("write", errno.ENOSPC, False), ("write", errno.ENOSPC, True),
          ("write", errno.EIO, False), ("fsync", errno.EIO, False), ("close", errno.EIO, False), ("rename", errno.EIO, False),
          ("mkdir", errno.ENOSPC, False), ("ftruncate", errno.EIO, False), ("open", errno.EMFILE, False), ("read", errno.EIO, False), ("fopen", errno.EMFILE, False)]
HARMLESS = [("create", errno.EINTR), ("open", errno.EINTR), ("write", errno.EINTR), ("write", 0), ("read", errno.EINTR), ("read", 0),
            ("fsync", errno.EINTR), ("close", errno.EINTR)]
LOGS = re.compile(r"/rank\d+\.log$")  # which are quoted, and nothing else
OLD = "there before\n"
DIES = """# A rank dies.
id: own.dies
job: {ranks: 2, steps: 2, model: mlp, data: digits, batch_per_rank: 4, optimizer: {kind: sgd, lr: 0.1}}
faults: [{at: {rank: 1, step: 1}, point: data/next, do: {kill: SIGKILL}}]
expect: {verdict: NONE}
"""
# What is loaded is as good without the edit: only the checkpoint that was written tells that it was made.
RESTORED = """# A rank dies, and the checkpoint is loaded behind two wrappers.
id: own.restored
job: {ranks: 2, steps: 4, model: mlp, data: digits, batch_per_rank: 4, optimizer: {kind: sgd, lr: 0.1}, checkpoint_every: 1,
      checkpoint_wrapped: false}
faults: [{at: {rank: 1, step: 2}, point: data/next, do: {kill: SIGKILL}}]
restore: {into: bare, prefix: auto, edit: double_prefix}
expect: {verdict: CRASH.SIGNALED, culprit: [1], restore: {from_step: 2, equals: uninterrupted}}
"""


def scenario(name):
    return os.path.join(root, "scenarios", name + ".yaml")


RUN = ["--driver", "sim", "-j", "1"]
# Name, arguments, the folder of a record that is left, the files that were there before, what is made ready first.
COMMANDS = [
    ("run", ["run", scenario("equivalence/mlp_w4"), *RUN, "--out", "r", "--json", "r.json", "--junit", "r.xml"], "r",
     ["r.json", "r.xml"], []),
    ("run_unkept", ["run", scenario("equivalence/mlp_w4"), *RUN, "--keep", "failed", "--out", "r"], None, [], []),
    ("run_restored", ["run", "restored.yaml", *RUN, "--out", "r"], "r", [], []),
    ("run_described", ["run", scenario("value/lost"), "--set", "faults.0.at.rank=1", *RUN, "--out", "r"], "r", [], []),
    ("check", ["check", "r"], None, [], [["run", scenario("value/lost"), *RUN, "--out", "r"]]),
    ("explain", ["explain", "r"], None, [], [["run", scenario("value/lost"), *RUN, "--out", "r"]]),
    ("shrink", ["shrink", "dies.yaml", "--driver", "sim", "-j", "1", "--out", "s"], None, [], []),
    ("diagnose", ["diagnose", os.path.join(root, "tests/data/diagnose/asleep3"), "--scenario", "s.yaml", "--json", "d.json"], None, [],
     []),
    ("coll", ["coll", "show", "ring", "--svg", "ring.svg"], None, [], []),
    ("new", ["new", "guest", "mine"], None, [], []),
    ("export", ["export", scenario("equivalence/mlp_w4"), "--out", "e"], None, [], []),
    ("campaign", ["campaign", os.path.join(root, "ci/campaigns/healthy.yaml"), "--cases", "3", *RUN, "--out", "c"], None, [], []),
    ("merge", ["campaign", "merge", "c", "--out", "m"], None, [],
     [["campaign", os.path.join(root, "ci/campaigns/healthy.yaml"), "--cases", "3", *RUN, "--out", "c"]]),
    ("ckpt_verify", ["ckpt", "verify", "legacy.pt", "--json", "v.json"], None, ["v.json"], []),
    ("ckpt_convert", ["ckpt", "convert", "legacy.pt", "-o", "c.safetensors"], None, ["c.safetensors"], []),
    ("ckpt_strip", ["ckpt", "strip", "wrapped.safetensors", "-o", "s.safetensors"], None, ["s.safetensors"], []),
    ("ckpt_diff", ["ckpt", "diff", "wrapped.safetensors", "wrapped.safetensors", "--json", "d.json"], None, ["d.json"], []),
]


def prepare(folder, command):
    """The command's folder, as it is before each trial."""
    os.makedirs(folder)
    with open(os.path.join(folder, "dies.yaml"), "w") as file:
        file.write(DIES)
    with open(os.path.join(folder, "restored.yaml"), "w") as file:
        file.write(RESTORED)
    if command[1][0] == "ckpt":
        shutil.copy(os.path.join(root, "tests/data/ckpt/legacy.pt"), folder)
        header = b'{"module.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
        with open(os.path.join(folder, "wrapped.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + bytes(8))
    for args in command[4]:
        subprocess.run([ddprove, *args], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def run(folder, args, variables, stdout=subprocess.PIPE):
    """Exit code and text, which is None of a command that came to no end."""
    try:
        done = subprocess.run([ddprove, *args], cwd=folder, stdout=stdout, stderr=subprocess.STDOUT if stdout == subprocess.PIPE
                              else subprocess.PIPE, text=True, timeout=HANGS_AFTER_S, check=False, errors="replace",
                              env={**os.environ, "LC_ALL": "C", **variables})
    except subprocess.TimeoutExpired:
        return 0, None
    return done.returncode, done.stdout if stdout == subprocess.PIPE else done.stderr


def files_of(folder):
    """All that lies in a folder, but what differs from run to run: times."""
    return sorted(os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names)


class Trial:
    """One run of a command with a call that fails."""

    def __init__(self, command, ready, fault, number):
        name, self.args, self.record, self.before, _ = command
        self.is_repeated = name in REPEATED
        self.call, self.error, self.is_for_good = fault
        self.title = (f"{name}: {self.call} {number}{' and later' if self.is_for_good else ''}, "
                      f"{errno.errorcode.get(self.error, 'moves a part')}")
        self.folder = os.path.join(out, f"{name}.{self.call}.{self.error}.{self.is_for_good}.{number}")
        shutil.copytree(ready, self.folder, symlinks=True)
        for path in self.before:
            with open(os.path.join(self.folder, path), "w") as file:
                file.write(OLD)
        seen = self.folder + ".seen"
        with open(seen, "wb") as file:
            file.write(bytes(SEEN_BYTES))
        variables = {"LD_PRELOAD": fail_call, "FAIL_CALL": self.call, "FAIL_AT": str(number), "FAIL_ERRNO": str(self.error),
                     "FAIL_UNDER": self.folder + "/", "FAIL_SEEN": seen}
        if self.is_for_good:
            variables["FAIL_LATER"] = "1"
        self.code, self.text = run(self.folder, self.args, variables)
        with open(seen, "rb") as file:
            content = file.read()
        os.remove(seen)
        self.count = int.from_bytes(content[:8], sys.byteorder)
        self.path = os.path.relpath(content[8:].split(b"\0")[0].decode() or self.folder, self.folder)
        self.has_struck = self.count >= number

    def complaints(self):
        """What is wrong with how it ended."""
        if self.text is None:
            return ["it came to no end"]
        wrong = []
        if self.code < 0 or "the harness itself ended" in self.text:
            wrong.append("it was ended by a signal")
        left = [path for path in files_of(self.folder) if path.endswith(".tmp")]
        if left:
            wrong.append(f"left behind: {left}")
        return wrong

    def complaints_of_failure(self):
        """What is wrong with how it ended, when it could not do its work."""
        if self.text is None:
            return self.complaints()
        wrong = self.complaints()
        if self.call in ("open", "read", "fopen") and LOGS.search(self.path):
            return wrong
        if self.code == 0 and self.is_repeated and not self.is_for_good:
            return wrong
        if self.code not in (2, 3, 4):
            wrong.append("not the exit code of an error")
        name = os.path.basename(self.path).removesuffix(".tmp")
        if self.call in ("open", "read", "fopen"):
            return wrong
        if os.strerror(self.error) not in self.text:
            wrong.append(f"does not say {os.strerror(self.error)!r}")
        # Of several that fail, one is enough.
        if name not in self.text and not self.is_for_good:
            wrong.append(f"does not name {name}")
        for path in self.before:
            with open(os.path.join(self.folder, path), errors="replace") as file:
                text = file.read()
            if text != OLD and not (run(self.folder, ["ckpt", "verify", path], {})[0] == 0 if path.endswith(".safetensors")
                                    else text.endswith(("}\n", "</testsuites>\n"))):
                wrong.append(f"{path} is neither the old nor the new one")
        # A verdict, and what a repetition said, are not part of what is judged.
        is_whole = name == "verdict.json" or self.call == "mkdir" or "/replay/" in self.path
        is_of_record = self.record is not None and not is_whole and self.path.startswith(self.record + "/")
        if is_of_record and run(self.folder, ["check", self.record], {})[0] == 0:
            wrong.append("check of what is left passes")
        return wrong

    def close(self, wrong):
        """Its folder goes; what is wrong is told."""
        shutil.rmtree(self.folder)
        if not wrong or not self.has_struck:
            return 0
        print(f"FAIL {self.title} ({self.path}): {'; '.join(wrong)}; exit {self.code}: {(self.text or '')[-500:]}", flush=True)
        return 1


def sweep(command, fault, is_harmful):
    """How many calls were made to fail, how many times that went wrong."""
    name = command[0]
    ready = os.path.join(out, name)
    number, failures = 0, 0
    while True:
        number += 1
        trial = Trial(command, ready, fault, number)
        if is_harmful:
            wrong = trial.complaints_of_failure()
        else:
            wrong = trial.complaints()
            if trial.code != exit_codes[name] or files_of(trial.folder) != files_of(ready + ".done"):
                wrong.append("not as if nothing had been")
        failures += trial.close(wrong)
        if not trial.has_struck:
            return number - 1, failures


def to_full_device(command):
    """What cannot be printed is no success."""
    folder = os.path.join(out, command[0] + ".full")
    shutil.copytree(os.path.join(out, command[0]), folder)
    with open("/dev/full", "w") as full:
        code, text = run(folder, command[1], {}, full)
    shutil.rmtree(folder)
    if text is None or code in (0, 77) or code < 0 or "stdout cannot be written" not in text:
        print(f"FAIL {command[0]} to a full device: exit {code}: {text}", flush=True)
        return 1, 1
    return 1, 0


shutil.rmtree(out, ignore_errors=True)
exit_codes = {}
commands = [command for command in COMMANDS if len(sys.argv) < 6 or command[0] in sys.argv[5:]]
for each in commands:
    prepare(os.path.join(out, each[0]), each)
    shutil.copytree(os.path.join(out, each[0]), os.path.join(out, each[0] + ".done"))
    for at in each[3]:
        with open(os.path.join(out, each[0] + ".done", at), "w") as old:
            old.write(OLD)
    exit_codes[each[0]], said = run(os.path.join(out, each[0] + ".done"), each[1], {})
    if exit_codes[each[0]] not in (0, 1):
        sys.exit(f"{each[0]}: exit {exit_codes[each[0]]} though nothing failed: {said}")
work = [(sweep, (each, fault, True)) for each in commands for fault in FAULTS]
work += [(sweep, (each, (*fault, False), False)) for each in commands for fault in HARMLESS]
work += [(to_full_device, (each,)) for each in commands if each[0] not in SILENT]
with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
    results = pool.map(lambda one: one[0](*one[1]), work, chunksize=1)
counts = [sum(values) for values in zip(*results)]
print(f"{counts[0]} calls failed, {counts[1]} times in vain")
sys.exit(counts[1] > 0)
