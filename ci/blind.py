#!/usr/bin/env python3
"""Faults drawn by somebody who knows nothing of the judge, nor of the planner: any action at any point of any job that lint takes.
All that is known is which rank was hit. So whoever is named must be that rank, and nobody else; or nothing was found, which is
listed by point and action, since a fault may do nothing (a zero made zero) or may be one that nobody looks for.
With --faults 2 (other ranks, or other steps of one) nobody but the two may be named. Where one of them is not, its fault is run alone:
one that does nothing alone either is counted as such, any other is listed with what is said of it alone, and of both.
--driver proc adds what real processes have: sockets. --opaque FILE draws a plug-in of that kind as the collective, too. What `ddprove campaign` asks is more (verdict, step, operation), but its
expectations are worked out by the same code base.
Usage: blind.py DDPROVE OUT [--seed N] [--cases N] [--faults N] [--driver sim|proc] [--opaque FILE] [-j N]
Exit: 0 nobody else was named, 1 somebody was, or ddprove failed; each such case is listed with its file."""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys

PROCESS = [{"kill": "SIGKILL"}, {"stop": "forever"}, {"hang": True}, {"exit": 3}, {"exit": 0}, {"abort": True}, {"fail": True},
           {"no_memory": 0}, {"leak_memory": True}, {"leak_file": True}]
DATA = [{"corrupt": kind} for kind in ("zero", "double", "half")]
ONE_SIDED = [key for action in PROCESS for key in action]
ARGS = [{"arg": "count", "value": 3}, {"arg": "redop", "value": "max"}, {"arg": "dtype", "value": "u8"}, {"arg": "root", "value": 1},
        {"arg": "kind", "value": "broadcast"}]
SAID = ("right", "not all named", "nothing found", "never fired")
# Points that no job in the simulator comes to, or whose faults need more than an action.
NOT_HERE = {"launch/spawn", "rendezvous/connect", "probe/sum", "collective/launch", "device/alloc", "device/event_wait",
            "nccl/async_error", "checkpoint/load", "data/resume", "data/worker"}
WITHOUT_STEP = {"comm/init", "data/sampler", "model/build", "ddp/config", "model/buffers", "trainer/config", "teardown/destroy"}


def draw_groups(r, job):
    """Groups of some ranks each, and collectives in them and of all, in some order."""
    names = ["a", "b", "c"][:r.choice([1, 2, 3])]
    sizes = {name: sorted(r.sample(range(job["ranks"]), r.randrange(2, job["ranks"] + 1))) for name in names}
    job["groups"] = [f"{name} {' '.join(map(str, ranks))}" for name, ranks in sizes.items()]
    kinds = ["all_reduce f32 100", "all_reduce f16 7", "all_gather bf16 5", "broadcast u8 31 root 1", "reduce_scatter f32 9",
             "reduce f32 64 root 0", "all_to_all i32 9", "barrier", "all_reduce i64 3 max"]
    job["posts"] = [r.choice(kinds) + r.choice([""] + [f" in {name}" for name in names]) for _ in range(r.randrange(1, 7))]


def draw_keys(r, job, options):
    """Keys that go with those that a job has already."""
    if job["ranks"] > 2 and r.random() < 0.25 and "join" not in job and "on_loss" not in job:
        draw_groups(r, job)
    if r.random() < 0.15 and "join" not in job and "on_loss" not in job and job.get("hook") != "local_sgd":
        job["drift_every"] = r.choice([1, 2])
    if job.get("hook") == "local_sgd" and r.random() < 0.7:
        job["local_sgd_start"] = r.randrange(job["steps"])
        job["local_sgd_period"] = r.choice([1, 2, 3])
    if job.get("hook") == "powersgd" and r.random() < 0.7:
        job["powersgd_rank"] = r.choice([1, 2])
        job["powersgd_start"] = r.choice([2, 3])
        job["powersgd_error_feedback"] = r.random() < 0.5
        job["powersgd_warm_start"] = r.random() < 0.5
    if "loss_scale" in job["optimizer"] and r.random() < 0.7:
        job["optimizer"]["scale_interval"] = r.choice([1, 2])
        job["optimizer"]["scale_growth"] = r.choice([2, 4])
    if r.random() < 0.15:
        job["nodes"] = sorted(r.randrange(2) for _ in range(job["ranks"]))
        job["collective"] = r.choice(["hierarchical", "ring"])
    if options.opaque is not None and r.random() < 0.3:
        job["collective"] = options.opaque
    if options.driver == "proc" and r.random() < 0.5:
        job["transport"] = "tcp"


def draw_job(r, options):
    """A job of few ranks and steps, with options as they come."""
    models = {
        "mlp": {"widths": r.choice([[64, 16, 10], [64, 12, 8, 10]]), "batch_per_rank": r.choice([2, 4, 8])},
        "convnet": {"widths": [64, 4, 6, 10], "batch_per_rank": r.choice([4, 8])},
        "gpt": {"widths": [8, 8, 8, 256], "heads": 2, "data": "text", "features": 8, "batch_per_rank": 4},
        "moe": {"widths": [64, 12, 10], "batch_per_rank": r.choice([2, 4]), "find_unused_parameters": True,
                "experts": r.choice([4, 6])},
        "branchy": {"batch_per_rank": 4, "find_unused_parameters": True, "branch": r.choice(["both", "rank_skips", "alternate"])},
    }
    model = r.choice(sorted(models))
    job = {"ranks": r.choice([2, 3, 4, 5]), "steps": r.choice([3, 4, 6]), "model": model, "data": "digits",
           "seed": r.randrange(1, 99), "bucket_cap_kb": r.choice([0.5, 1, 2, 4]), **models[model]}
    optimizer = {"kind": r.choice(["sgd", "adamw"]), "lr": r.choice([1e-3, 0.05])}
    for key, values in (("clip_norm", [0.1, 1.0]), ("warmup_steps", [2]), ("lr_decay", ["cosine"]),
                        ("lr_scaling", ["linear", "sqrt"]), ("loss_scale", [1024])):
        if r.random() < 0.25:
            optimizer[key] = r.choice(values)
    job["optimizer"] = optimizer
    for key, values in (("micro_batches", [2]), ("bucket_order", ["pytorch"]), ("gradient_as_bucket_view", [True]),
                        ("gradient_scale", ["post"]), ("evaluate_every", [2]), ("checkpoint_every", [2]),
                        ("semantics", ["pytorch", "pytorch", "strict"]), ("hook", ["fp16", "bf16", "allreduce", "local_sgd", "quantize", "powersgd"]),
                        ("sync_batchnorm", [True]), ("static_graph", [True]), ("drop_last", [True]), ("join", [{}]),
                        ("all_gather", ["ring_all_gather"]), ("on_loss", ["continue"])):
        if r.random() < 0.25:
            job[key] = r.choice(values)
    if "evaluate_every" in job:
        job["evaluation"] = r.choice(["sharded", "rank0"])
    if r.random() < 0.4:
        job["collective"] = r.choice(["recursive_doubling", "linear", "rabenseifner", "binomial_tree", "two_shot",
                                      "double_binary_tree", "one_shot", "bidirectional_ring", "segmented_ring"])
    draw_keys(r, job, options)
    if "join" in job:
        job["shard_sizes"] = [job["batch_per_rank"] * r.randrange(2, job["steps"] + 1) for _ in range(job["ranks"])]
    return job


def draw_fault(r, job, points):
    """An action at a point, on a rank, in a step, sometimes only for a bucket or a phase."""
    point = r.choice(sorted(points))
    at = {"rank": r.randrange(job["ranks"])}
    if point not in WITHOUT_STEP:
        at["step"] = r.randrange(job["steps"] - 1)
    actions = PROCESS[:]
    if points[point] == "data":
        number = {"corrupt": "set", "elem": r.randrange(4), "value": r.choice([0, 1, 2, 5])}
        actions += 2 * (DATA + [{"corrupt": "scale", "value": 1.25}, {"corrupt": "shift"}, {"corrupt": "nan", "elem": 0},
                                {"corrupt": "flip", "elem": r.randrange(3), "bit": r.randrange(3, 31)}, number, number])
    elif points[point] == "args":
        actions += 3 * ARGS + 3 * [{"skip": True}, {"dup": True}]
    else:
        actions += 6 * [{"skip": True}] + 2 * [{"dup": True}, {"overtaken": True}]
    if point in ("bucket/fill", "bucket/launch", "bucket/unflatten") and r.random() < 0.5:
        at["bucket"] = r.randrange(2)
    if point in ("collective/pre", "collective/enqueue", "collective/post", "collective/wait") and r.random() < 0.4:
        at["phase"] = r.choice(["backward", "buffer"])
    return {"at": at, "point": point, "do": r.choice(actions)}


def draw_faults(r, job, points, count):
    """Each on another rank than the others, or in another step."""
    faults = []
    while len(faults) < count:
        fault = draw_fault(r, job, points)
        place = (fault["at"]["rank"], fault["at"].get("step"))
        if place not in [(other["at"]["rank"], other["at"].get("step")) for other in faults]:
            faults.append(fault)
    return faults


def ask(ddprove, *args):
    """stdout and stderr of ddprove."""
    return subprocess.run([ddprove, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def draw(options, folder):
    """As many scenarios as wanted that lint takes; {id: scenario}."""
    r = random.Random(options.seed)
    points = {}
    for line in ask(options.ddprove, "list", "points").splitlines():
        name, carries = line.split()[:2]
        if name not in NOT_HERE:
            points[name] = carries
    drawn, tried = {}, 0
    batch_folder = os.path.join(options.out, "batch", "blind")  # lint reads each case once
    os.makedirs(batch_folder)
    while len(drawn) < options.cases:
        batch = {}
        for _ in range(500):
            job = draw_job(r, options)
            name = f"c{tried:06d}"
            batch[name] = {"id": f"blind.{name}", "drivers": [options.driver], "job": job,
                           "faults": draw_faults(r, job, points, options.faults), "expect": {"verdict": "NONE"}}
            tried += 1
            with open(f"{batch_folder}/{name}.yaml", "w", encoding="ascii") as file:
                file.write("# A drawn case.\n" + json.dumps(batch[name]) + "\n")
        refused = set(re.findall(r"(c\d{6})\.yaml:", ask(options.ddprove, "lint", batch_folder)))
        for name in sorted(batch):
            if name in refused or len(drawn) == options.cases:
                os.remove(f"{batch_folder}/{name}.yaml")
            else:
                os.rename(f"{batch_folder}/{name}.yaml", f"{folder}/{name}.yaml")
                drawn[name] = batch[name]
        if not batch.keys() & drawn.keys():
            sys.exit("lint refuses all that is drawn: " + ask(options.ddprove, "lint", batch_folder)[:500])
    print(f"{len(drawn)} cases of {tried} drawn ones: the others cannot happen, as lint says")
    return drawn


def judge(verdict, scenario):
    """What to say of a case: "right", "nothing found", "never fired", or what is wrong."""
    hit = {entry["rank"] for entry in verdict["fired"] if entry["times"] > 0}
    named = who_is_named(verdict)
    if verdict["outcome"] == "ERROR":
        return f"ERROR: {verdict['reason']}"
    if not hit:
        return "never fired" if not verdict["findings"] else f"nothing fired, and {sorted(named)} is named"
    # Who loses a message cannot be told from its record alone: its sender may not have sent it.
    ends = sum(fault["point"] == "message/recv" and not fault["do"].keys() & set(ONE_SIDED) for fault in scenario["faults"])
    if len(named - hit) > ends:
        return f"{sorted(named)} is named, {sorted(hit)} was hit"
    if not named and verdict["findings"]:
        return f"{verdict['verdict']} of nobody"
    if named and hit - named:
        return "not all named"
    return "right" if named else "nothing found"


def run(options, folder, runs):
    """The verdict of each scenario of a folder, by name."""
    report = runs + ".json"
    ask(options.ddprove, "run", folder, "--driver", options.driver, "-j", str(options.j), "--out", runs, "--json", report)
    with open(report, encoding="utf-8") as file:
        return {verdict["id"].split(".")[1]: verdict for verdict in json.load(file)["scenarios"]}


def who_is_named(verdict):
    """The culprits of all that follows from nothing else."""
    return {rank for finding in verdict["findings"] if finding["follows_from"] is None for rank in finding["culprit"]}


def run_hidden(options, drawn, verdicts, names):
    """Runs the faults alone whose ranks were not named beside another one. What is said of each: {name: its verdict, or None if
    nothing is found then either}."""
    folder = os.path.join(options.out, "hidden", "blind")
    os.makedirs(folder)
    for name in names:
        named = who_is_named(verdicts[name])
        alone = dict(drawn[name], faults=[fault for fault in drawn[name]["faults"] if fault["at"]["rank"] not in named])
        with open(f"{folder}/{name}.yaml", "w", encoding="ascii") as file:
            file.write("# What another fault hid.\n" + json.dumps(alone) + "\n")
    said = run(options, folder, os.path.join(options.out, "hidden", "runs")) if names else {}
    return {name: said[name] if name in said and said[name]["findings"] else None for name in names}


def say_hidden(options, drawn, verdicts, hidden):
    """A line for each fault that is found alone, sorted by what hides it."""
    lines = []
    for name, alone in hidden.items():
        if alone is not None:
            faults = [fault for fault in drawn[name]["faults"] if fault["at"]["rank"] not in who_is_named(verdicts[name])]
            lines.append(f"HIDDEN {alone['verdict']} of {alone['culprit']} step {alone['step']} behind {verdicts[name]['verdict']} of "
                         f"{verdicts[name]['culprit']} step {verdicts[name]['step']}: {options.out}/blind/{name}.yaml, alone "
                         f"{options.out}/hidden/blind/{name}.yaml: {json.dumps(faults)}")
    for line in sorted(lines):
        print(line)
    print(f"{len(hidden)} not all named: {len(lines)} are found alone, {len(hidden) - len(lines)} do nothing alone either")


def main():
    """Draw, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ddprove")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=1)
    parser.add_argument("--driver", choices=("sim", "proc"), default="sim")
    parser.add_argument("--opaque", type=os.path.abspath)
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    options.ddprove = os.path.abspath(options.ddprove)
    folder = os.path.join(options.out, "blind")
    shutil.rmtree(options.out, ignore_errors=True)
    os.makedirs(folder)
    drawn = draw(options, folder)
    verdicts = run(options, folder, os.path.join(options.out, "runs"))
    counts, unseen, wrong, partly = collections.Counter(), collections.Counter(), [], []
    for name, scenario in drawn.items():
        said = judge(verdicts[name], scenario) if name in verdicts else "no verdict"
        if said in SAID:
            counts[said] += 1
            partly += [name] if said == "not all named" else []
            if said == "nothing found":
                unseen.update(f"{fault['point']} {json.dumps(fault['do'])}" for fault in scenario["faults"])
        else:
            wrong.append((name, said))
    for name, said in wrong:
        print(f"WRONG {folder}/{name}.yaml: {verdicts.get(name, {}).get('verdict')}: {said}: {json.dumps(drawn[name]['faults'])}")
    if partly:
        say_hidden(options, drawn, verdicts, run_hidden(options, drawn, verdicts, partly))
    for what, count in sorted(unseen.items()):
        print(f"nothing found {count:4d} {what}")
    print(", ".join(f"{counts[kind]} {kind}" for kind in SAID) + f", {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
