"""ddprove ckpt, on the files that the scenarios of checkpoints leave behind, and on those of torch.save.

Each file that a run has left is read here too, in a few lines of Python: `verify` must pass what is sound, fail what is not,
and tell the same tensors. What was saved through the wrapper and then stripped must be, bit for bit, what is saved
without it.

Usage: ckpt.py DDPROVE ROOT OUT
"""
import filecmp
import glob
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_file  # pylint: disable=wrong-import-position

ddprove, root, out = (os.path.abspath(arg) for arg in sys.argv[1:4])
SIZES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1}
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAIL", text, flush=True)


def ckpt(*args):
    """Exit code, what was printed, what was complained of."""
    done = subprocess.run([ddprove, "ckpt", *args], cwd=out, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def ends(code, text, *args):
    """It ends so, and says this, in one line if it is an error."""
    got = ckpt(*args)
    if got[0] != code or text not in got[1] + got[2] or (got[2] and got[2].count("\n") != 1):
        fail(f"ckpt {' '.join(args)}: exit {got[0]}, not {code} with {text!r}: {got[1]}{got[2]}")


def no_twins(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("twice")
    return dict(pairs)


def read(content):
    """Tensors, data and checksum of a file, or why it is not sound."""
    if len(content) < 8:
        return "short"
    size = struct.unpack("<Q", content[:8])[0]
    if size > len(content) - 8 or size > 100000000:
        return "header size"
    try:
        header = json.loads(content[8:8 + size], object_pairs_hook=no_twins)
    except ValueError:
        return "header"
    if not isinstance(header, dict):
        return "no object"
    data, meta = content[8 + size:], header.pop("__metadata__", {})
    if not isinstance(meta, dict) or any(not isinstance(value, str) for value in meta.values()):
        return "metadata"
    spans = []
    for name, claim in header.items():
        if not isinstance(claim, dict) or set(claim) != {"dtype", "shape", "data_offsets"} or claim["dtype"] not in SIZES:
            return f"claim of {name}"
        lists = [claim["shape"], claim["data_offsets"]]
        if not all(isinstance(one, list) for one in lists) or len(lists[1]) != 2 or \
                any(not isinstance(number, int) or number < 0 for number in sum(lists, [])):
            return f"numbers of {name}"
        first, last = claim["data_offsets"]
        if first > last or last > len(data) or math.prod(claim["shape"]) * SIZES[claim["dtype"]] != last - first:
            return f"offsets of {name}"
        spans.append((first, last))
        special = {"F32": ("I", 0x7f800000), "BF16": ("H", 0x7f80)}.get(claim["dtype"])
        if special and any(value & special[1] == special[1] for (value,) in struct.iter_unpack("<" + special[0], data[first:last])):
            return f"values of {name}"
    end = 0
    for first, last in sorted(spans):
        if first != end:
            return "gap"
        end = last
    if end != len(data) or "" in header or any("\0" in name for name in header):
        return "rest"
    model = [name for name in header if not ("steps_done" in meta and name.replace("module.", "").startswith(("optim.", "hook.")))]
    if 0 < sum(name.startswith("module.") for name in model) < len(model):
        return "mixed"
    return header, data, meta.get("ddprove.xxh3")


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def is_altered(path, found):
    """What was given to a restored run has the tensors of what its first run wrote, and other data, or another checksum."""
    if isinstance(found, str):
        return False
    folder = os.path.dirname(path)
    given, origin = os.path.join(folder, "given.safetensors"), os.path.join(os.path.dirname(folder), "checkpoint.safetensors")
    if not os.path.exists(given) or content_of(path) != content_of(given):
        return False
    first = read(content_of(origin))
    return first[0] == found[0] and (first[1] != found[1] or found[2] not in (first[2], None))


def check_scenarios():
    """Every file that they leave."""
    subprocess.run([ddprove, "run", os.path.join(root, "scenarios/checkpoint"), "--driver", "sim", "--out", "runs"], cwd=out,
                   stdout=subprocess.DEVNULL, check=True)
    paths = sorted(glob.glob(os.path.join(out, "runs/**/*.safetensors"), recursive=True))
    counts, seen = [0, 0], set()
    for path in paths:
        found = read(content_of(path))
        if (content_of(path), is_altered(path, found)) in seen:
            continue
        seen.add((content_of(path), is_altered(path, found)))
        is_sound = not isinstance(found, str) and not is_altered(path, found)
        counts[is_sound] += 1
        code, said, wrong = ckpt("verify", path, "--json", "verify.json")
        if code != (0 if is_sound else 1) or wrong or f": {'PASS' if is_sound else 'FAIL'}, " not in said:
            fail(f"{path} is {found if isinstance(found, str) else is_sound}: exit {code}: {said}{wrong}")
        with open(os.path.join(out, "verify.json"), encoding="utf-8") as file:
            told = json.load(file)
        tensors = [(tensor["name"], tensor["shape"]) for tensor in told["tensors"]]
        code, said, wrong = ckpt("inspect", path)
        table = [line for line in said.split("\n")[1:] if re.fullmatch(r"  \S.*  \w+ \[[\d,]*\](  \d+ not finite)?", line)]
        if code not in (0, 1) or wrong or (not isinstance(found, str) and len(table) != len(found[0])):
            fail(f"inspect {path}: exit {code}: {said}{wrong}")
        if told["is_sound"] != is_sound or \
                (not isinstance(found, str) and tensors != [(name, claim["shape"]) for name, claim in found[0].items()]):
            fail(f"verify --json {path}: {told}")
    if min(counts) < 20:
        fail(f"of {len(paths)} files {counts[1]} are sound: too few to tell")


def check_strip():
    """Saved through the wrapper and stripped, or saved without it: the same file."""
    resume = os.path.join(root, "scenarios/checkpoint/prefix_pytorch.yaml")
    for name, is_wrapped in (("wrapped", "true"), ("bare", "false")):
        subprocess.run([ddprove, "run", resume, "--driver", "sim", "--set", f"job.checkpoint_wrapped={is_wrapped}", "--out", name],
                       cwd=out, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        path = [path for path in glob.glob(os.path.join(out, name, "**/checkpoint.safetensors"), recursive=True)
                if "restore/" not in path][0]
        shutil.copy(path, os.path.join(out, name + ".safetensors"))
    ends(0, '0 of 4 keys begin with "module."; 8 of the optimizer', "inspect", "bare.safetensors")
    ends(0, "module.fc0.weight", "inspect", "wrapped.safetensors", "--json", "inspect.json")
    with open(os.path.join(out, "inspect.json"), encoding="utf-8") as file:
        told = json.load(file)
    if told["is_sound"] is not None or told["prefix"] != {"keys": 4, "with_module": 4, "depth_min": 1, "depth_max": 1}:
        fail(f"inspect --json: {told}")
    ends(1, "none of 4 keys begins with", "strip", "bare.safetensors", "-o", "none")
    ends(0, 'begins with "module." more', "diff", "wrapped.safetensors", "bare.safetensors")
    ends(0, "12 tensors", "strip", "wrapped.safetensors", "-o", "stripped.safetensors")
    shutil.copy(os.path.join(out, "wrapped.safetensors"), os.path.join(out, "in_place.safetensors"))
    ends(0, "12 tensors", "strip", "in_place.safetensors", "-o", "in_place.safetensors")
    for name in ("stripped", "in_place"):
        if not filecmp.cmp(os.path.join(out, name + ".safetensors"), os.path.join(out, "bare.safetensors"), shallow=False):
            fail(f"{name} is not what is saved without the wrapper")
    # A link stays one, and what it leads to is replaced.
    os.symlink("linked.safetensors", os.path.join(out, "link"))
    shutil.copy(os.path.join(out, "wrapped.safetensors"), os.path.join(out, "linked.safetensors"))
    ends(0, "12 tensors", "strip", "link", "-o", "link")
    if not os.path.islink(os.path.join(out, "link")) or \
            not filecmp.cmp(os.path.join(out, "linked.safetensors"), os.path.join(out, "bare.safetensors"), shallow=False):
        fail("strip onto a link")
    ends(2, "not as a file", "strip", "wrapped.safetensors", "-o", "/dev/null")
    ends(2, "not as a file", "strip", "wrapped.safetensors", "-o", "runs")
    ends(3, "No such file", "strip", "wrapped.safetensors", "-o", "missing/x")
    if os.path.exists(os.path.join(out, "none")):
        fail("what is refused is written")


def check_words():
    """Words of the command line."""
    ends(2, "say what to do with which file", )
    ends(2, "did you mean strip", "strp", "x")
    ends(2, "known: inspect, verify, strip", "qqqqqqq", "x")
    ends(2, "it is ddprove ckpt strip IN -o OUT", "strip", "x")
    ends(2, "it is ddprove ckpt verify FILE", "verify", "x", "-o", "y")
    ends(2, "it is ddprove ckpt diff A B", "diff", "x")
    ends(2, "No such file", "verify", "missing")
    ends(2, "is a folder; name a file", "inspect", "runs")
    ends(2, "--key is for files of torch.save", "inspect", "bare.safetensors", "--key", "model")
    ends(2, "--key is for files of torch.save", "diff", "bare.safetensors", "bare.safetensors", "--key", "model")
    ends(2, "--json is of inspect", "strip", "wrapped.safetensors", "-o", "none", "--json", "j")
    ends(1, "is safetensors already", "convert", "bare.safetensors", "-o", "none")
    with open(os.path.join(out, "damaged.safetensors"), "wb") as file, open(os.path.join(out, "wrapped.safetensors"), "rb") as whole:
        content = bytearray(whole.read())
        content[-1] ^= 1
        file.write(content)
    ends(1, "are damaged; nothing was written", "strip", "damaged.safetensors", "-o", "none")
    code, said, wrong = ckpt("diff", "damaged.safetensors", "wrapped.safetensors", "--json", "diff.json")
    if code != 1 or "1 of 1 elements differ" not in said or "are damaged" not in wrong:
        fail(f"diff of a damaged file: exit {code}: {said}{wrong}")
    with open(os.path.join(out, "diff.json"), encoding="utf-8") as file:
        change = json.load(file)["changes"]
    if len(change) != 1 or change[0]["elements"] != 1:
        fail(f"diff --json: {change}")


def check_torch():
    """Files of torch.save, PyTorch's own and written here."""
    own = os.path.join(root, "tests/data/ckpt")
    for name in ("state_dict", "protocol4", "legacy", "wrapped", "views"):
        path = os.path.join(own, name + ".pt")
        ends(0, ": PASS, torch.save", "verify", path)
        ends(0, " tensors, of ", "convert", path, "-o", name + ".safetensors")
        ends(0, ": PASS, safetensors", "verify", name + ".safetensors")
        ends(0, "equal bit for bit", "diff", path, name + ".safetensors")
    wrapped = os.path.join(own, "wrapped.pt")
    ends(0, "taken     model_state_dict", "verify", wrapped)
    ends(0, f"of {wrapped}: model_state_dict; left out: optimizer, epoch, loss", "diff", wrapped, "wrapped.safetensors")
    ends(0, "7 tensors", "diff", wrapped, "wrapped.safetensors", "--key", "model_state_dict")
    ends(0, "left out: optimizer, epoch, loss", "convert", os.path.join(own, "wrapped.pt"), "-o", "of_wrapped.safetensors")
    ends(0, "7 tensors", "strip", "of_wrapped.safetensors", "-o", "of_wrapped.safetensors")
    if not filecmp.cmp(os.path.join(out, "of_wrapped.safetensors"), os.path.join(out, "state_dict.safetensors"), shallow=False):
        fail("a wrapped model, converted and stripped, is not the bare one, converted")
    ends(1, "it needs torch.nn.modules.container.Sequential", "convert", os.path.join(own, "module.pt"), "-o", "none")
    ends(1, "no safetensors file; make one of it first", "strip", os.path.join(own, "wrapped.pt"), "-o", "none")

    storage = torch_file.Storage("0", [float(i) for i in range(6)])
    whole = torch_file.Tensor(storage, (2, 3), (3, 1))
    torch_file.save(os.path.join(out, "written.pt"), {"module.w": whole, "module.t": torch_file.Tensor(storage, (3, 2), (1, 3))}, [storage])
    ends(0, "PASS, torch.save, 2 tensors", "verify", "written.pt")
    with open(os.path.join(out, "marker"), "w", encoding="utf-8"):
        pass

    class Evil:
        """What a pickle may do to whoever loads it."""

        def __reduce__(self):
            return os.remove, (os.path.join(out, "marker"),)

    torch_file.save(os.path.join(out, "evil.pt"), {"w": whole, "x": Evil()}, [storage])
    ends(1, "it needs posix.remove", "verify", "evil.pt")
    if not os.path.exists(os.path.join(out, "marker")):
        fail("a pickle was run")
    torch_file.save(os.path.join(out, "mixed.pt"), {"module.w": whole, "t": whole}, [storage])
    ends(1, "keys: 1 of 2 begin with", "verify", "mixed.pt")
    odd = torch_file.Storage("1", [1.0, math.nan])
    torch_file.save(os.path.join(out, "nan.pt"), {"model": {"w": whole}, "optimizer": {"state": {0: torch_file.Tensor(odd, (2,), (1,))}}},
                    [storage, odd])
    ends(1, 'tensor "optimizer.state.0": 1 of 2 values are not finite, the first at [1], nan', "verify", "nan.pt")
    torch_file.save(os.path.join(out, "big.pt"), {"w": whole}, [storage], extra=[("archive/constants.pkl", b"\x80\x02).")])
    ends(1, "it is a TorchScript program", "verify", "big.pt")
    torch_file.save(os.path.join(out, "lost.pt"), {"w": whole}, [])
    ends(1, 'its storage "0" is not in the file', "verify", "lost.pt")


shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
check_scenarios()
check_strip()
check_words()
if " yes " in [line for line in subprocess.run([ddprove, "doctor"], capture_output=True, text=True, check=False).stdout.split("\n")
               if line.startswith("libzip")][0]:
    check_torch()
else:
    ends(3, "install libzip-dev", "verify", os.path.join(root, "tests/data/ckpt/state_dict.pt"))
print(f"{failures} failures")
sys.exit(failures > 0)
