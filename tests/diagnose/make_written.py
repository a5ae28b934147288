"""Write the sets of tests/data/diagnose/written_*: what no machine without GPUs can produce.

    python3 tests/diagnose/make_written.py tests/data/diagnose

These are not outputs of the programs whose formats they have; they are written after those programs' sources and
documentation (PyTorch 2.4 to 2.15, NCCL 2.18 to 2.30).
"""

import json
import os
import pickle
import sys

FRAME = {"name": "step", "filename": "train.py", "line": 31}


def call(seq, kind="all_reduce", sizes=((1024,),), state="completed", group=("0", "default_pg"), **more):
    """An entry as ProcessGroupNCCL records it."""
    done = state == "completed"
    entry = {
        "frames": [{"name": "all_reduce", "filename": "/opt/torch/distributed/distributed_c10d.py", "line": 2501},
                   dict(FRAME, line=more.pop("line", 31))],
        "record_id": more.pop("record_id", seq - 1), "pg_id": int(group[0]), "process_group": group,
        "collective_seq_id": seq, "p2p_seq_id": more.pop("p2p_seq_id", 0), "op_id": seq,
        "profiling_name": "nccl:" + kind, "time_created_ns": 1700000000000000000 + seq * 1000000,
        "input_sizes": tuple(sizes), "input_dtypes": ["Float"] * len(sizes), "output_sizes": tuple(sizes),
        "output_dtypes": ["Float"] * len(sizes), "state": state,
        "time_discovered_started_ns": 1 if state != "scheduled" else None,
        "time_discovered_completed_ns": 1 if done else None, "retired": done, "timeout_ms": 600000, "is_p2p": False}
    entry.update(more)
    return entry


def record(entries, ranks, version="2.4", groups=None, last=None):
    """A dump; without groups there is the default one, of all ranks."""
    config = {name: {"name": name, "desc": desc, "ranks": str(list(members))}
              for name, desc, members in groups or [("0", "default_pg", range(ranks))]}
    posted = max((entry["collective_seq_id"] for entry in entries), default=0) if last is None else last
    done = max((e["collective_seq_id"] for e in entries if e["state"] == "completed"), default=-1)
    dump = {"version": version, "pg_config": config, "entries": entries,
            "pg_status": {"0": {"last_enqueued_collective": posted, "last_started_collective": posted,
                                "last_completed_collective": done}}}
    if version in ("2.9", "2.10"):
        dump["nccl_version" if version == "2.9" else "comm_lib_version"] = "2.27.5"
    return dump


def run(count, hung=True, **last):
    """count calls, the last one still running."""
    calls = [call(seq) for seq in range(1, count)]
    return calls + [call(count, state="started" if hung else "completed", **last)]


def sets():
    """name: {file: dump or text}"""
    out = {}
    out["behind4"] = {f"nccl_trace_rank_{r}": record(run(9) if r != 3 else run(8, hung=False), 4, "2.4")
                      for r in range(4)}
    out["old_versions4"] = {f"nccl_trace_rank_{r}": record(run(9) if r != 0 else run(8, hung=False), 4,
                                                           ["2.1", "2.3", "2.9", "2.10"][r]) for r in range(4)}
    # Healthy: rank 0 wrote its dump three calls before the others.
    out["times4"] = {f"nccl_trace_rank_{r}": record(run(5 if r == 0 else 8, hung=False), 4) for r in range(4)}
    out["device4"] = {f"nccl_trace_rank_{r}": record(run(9), 4) for r in range(4)}
    out["not_launched4"] = {f"nccl_trace_rank_{r}": record(
        [call(s) for s in range(1, 9)] + [call(9, state="scheduled" if r == 2 else "started")], 4) for r in range(4)}
    # The same, and how far each has enqueued behind that call differs: that is nobody's fault.
    reach = (12, 11, 9, 12)
    out["device_ahead4"] = {f"nccl_trace_rank_{r}": record(
        [call(s, state="completed" if s < 9 else "started" if s == 9 else "scheduled")
         for s in range(1, reach[r] + 1)], 4) for r in range(4)}
    out["not_launched_ahead4"] = {f"nccl_trace_rank_{r}": record(
        [call(s, state="completed" if s < 9 else "started" if s == 9 and r != 1 else "scheduled")
         for s in range(1, reach[r] + 1)], 4) for r in range(4)}
    # Two against two, and no past: nobody can say who is right.
    out["camps4"] = {f"nccl_trace_rank_{r}": record([call(1, sizes=((10 if r < 2 else 20,),), state="started")], 4)
                     for r in range(4)}
    # A launcher started the job twice; rank 1's first attempt left a dump, too.
    out["attempts3"] = {f"nccl_trace_rank_{r}": record(run(9) if r != 2 else run(8, hung=False), 3) for r in range(3)}
    out["attempts3"]["first/nccl_trace_rank_1"] = record(run(3), 3)
    # The default group was destroyed and made again: numbers begin anew.
    again = [call(s) for s in range(1, 6)] + [call(s, record_id=4 + s) for s in range(1, 4)]
    out["again3"] = {f"nccl_trace_rank_{r}": record(
        again + ([call(4, record_id=8, state="started")] if r != 1 else []), 3, last=4 if r != 1 else 3)
        for r in range(3)}
    out["messages3"] = {
        "nccl_trace_rank_0": record([call(1), call(1, "send 0->1", p2p_seq_id=1, is_p2p=True, record_id=1),
                                     call(1, "recv 0<-1", p2p_seq_id=2, is_p2p=True, record_id=2, state="started")], 3),
        "nccl_trace_rank_1": record([call(1), call(1, "recv 1<-0", p2p_seq_id=1, is_p2p=True, record_id=1)], 3),
        "nccl_trace_rank_2": record([call(1)], 3)}
    # Members of gather and all_to_all bring different sizes, and that is right.
    out["uneven3"] = {f"nccl_trace_rank_{r}": record(
        [call(1), call(2, "all_to_all", sizes=((r + 1,),)), call(3, "gather", sizes=((5 + r,),))], 3) for r in range(3)}
    # A pipeline: rank 1 waits for a message whose peer is not recorded, rank 2 does not come.
    out["pipeline3"] = {
        "nccl_trace_rank_0": record([call(1), call(2, record_id=1, state="started")], 3),
        "nccl_trace_rank_1": record([call(1), call(1, "coalesced", p2p_seq_id=1, is_p2p=True, record_id=1,
                                                   state="started")], 3),
        "nccl_trace_rank_2": record([call(1)], 3)}
    # Ranks 4 to 7 of the job are a group; the fourth of them, rank 7, does not come.
    groups = [("0", "default_pg", range(8)), ("1", "dp", range(4)), ("2", "dp", range(4, 8))]
    out["groups8"] = {}
    for r in range(8):
        own = ("1" if r < 4 else "2", "dp")
        calls = [call(1)] + [call(s, group=own, record_id=s) for s in range(1, 4)]
        if r != 7:
            calls += [call(4, group=own, record_id=4, state="started" if r > 3 else "completed")]
        if r < 4:
            calls += [call(2, record_id=5, state="started")]
        out["groups8"][f"nccl_trace_rank_{r}"] = record(calls, 8, "2.10", groups, last=2 if r < 4 else 1)
    out["large64"] = {f"nccl_trace_rank_{r}": record(run(4) if r != 41 else run(3, hung=False), 64) for r in range(64)}
    out["coalesced2"] = {f"nccl_trace_rank_{r}": record(
        [call(1, "coalesced", op_id=3, sizes=((4,), (5,))), call(1, op_id=1, sizes=((4,),), record_id=1),
         call(2, record_id=2, state="started" if r == 0 else "completed")][:3 if r == 0 else 2], 2) for r in range(2)}

    at = "[E1124 10:00:0%d.000000000 ProcessGroupNCCL.cpp:%d] [PG ID 0 PG GUID 0(default_pg) Rank %d] "
    text = ""
    for r in (3, 0, 1):
        text += f"[rank{r}]:" + at % (r, 683, r) + (
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=4096, "
            "NumelOut=4096, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n")
        text += f"[rank{r}]:" + at % (r, 2241, r) + (" failure detected by watchdog at work sequence id: 57 PG status: "
                                                     "last enqueued work: 57, last completed work: 56\n")
    text += "[rank2]:" + at % (2, 1806, 2) + (
        "Received a dump signal due to a collective timeout from  rank 3 and we will try our best to dump the debug "
        "info. Last enqueued NCCL work: 56, last completed NCCL work: 56.This is most likely caused by incorrect "
        "usages of collectives.\n")
    out["watchdog4"] = {"console.log": text}
    text = "".join(
        f"[E ProcessGroupNCCL.cpp:821] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, "
        f"OpType={kind}, Timeout(ms)=1800000) ran for 1802710 milliseconds before timing out.\n"
        for r, kind in enumerate(("ALLREDUCE", "BROADCAST", "ALLREDUCE")))
    # The same job as behind4, seen by its watchdogs.
    seen = "".join(f"[rank{r}]:" + at % (r, 683, r) + (
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1024, "
        "NumelOut=1024, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n") for r in range(3))
    out["behind_watchdog4"] = {"console.log": seen}
    def summary(ends):
        """What torchrun prints of ranks that failed, the first one last."""
        return "".join(f"[{n}]:\n  time      : 2026-11-24_10:00:00\n  host      : node\n  rank      : {r} (local_rank: "
                       f"{r})\n  exitcode  : {code} (pid: {100 + r})\n  error_file: <N/A>\n  traceback : {why}\n"
                       for n, (r, code, why) in enumerate(ends))

    abort = "Signal 6 (SIGABRT) received by PID 100"
    out["abort4"] = {"console.log": seen + summary([(0, -6, abort), (1, -6, abort), (2, -6, abort),
                                                    (3, -15, "Signal 15 (SIGTERM) received by PID 103")])}
    # Rank 2 brings another count to a call of Gloo, and rank 1 aborts of that: set shapes3.
    lost = "RuntimeError: [pair.cc:545] Read error [127.0.0.1]:1: Connection reset by peer"
    out["abort_alone3"] = {"console.log": f"[rank0]: {lost}\n[rank2]: {lost}\n" + summary([(1, -6, abort)])}
    def stack(pid, frames):
        return (f"Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
                f'Thread {pid} (idle): "MainThread"\n' + "".join(f"    {frame}\n" for frame in frames))

    own = ["step (train.py:31)", "<module> (train.py:50)"]
    inside = ["all_reduce (torch/distributed/distributed_c10d.py:4174)", *own]
    loading = ["wait (threading.py:320)", "get (queue.py:171)", "_get_data (torch/utils/data/dataloader.py:1131)",
               "__next__ (torch/utils/data/dataloader.py:630)", "epoch (train.py:28)"]
    out["loading3"] = {f"rank{r}.txt": stack(100 + r, loading if r == 2 else inside) for r in range(3)}
    out["memory3"] = {"console.log": "".join(f"[rank{r}]: {lost}\n" for r in (0, 2)) + (
        "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"train.py\", line 31, in step\n"
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")}
    # Rank 0 printed an error, caught it and went on.
    out["caught3"] = {"console.log": "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"train.py\", line "
                                     "7, in cache\n[rank0]: ValueError: no cache yet\n"}
    def failure(text):
        return {"message": {"message": text, "extraInfo": {"py_callstack": text, "timestamp": "1700000000"}}}

    out["tries3"] = {"attempt_1/0/error.json": failure(lost),
                     "attempt_0/1/error.json": failure("ValueError: the first time"),
                     "attempt_1/2/error.json": failure("KeyError: the second time")}
    out["watchdog_old3"] = {"console.log": text}
    text = "".join(
        f"[rank{r}]:[E ProcessGroupNCCL.cpp:1182] [PG 0 Rank {r}] Timeout at NCCL work: 5, last enqueued NCCL work: 5, "
        "last completed NCCL work: 4.\n" for r in (0, 2))
    text += ("[rank1]:[E ProcessGroupNCCL.cpp:1170] [PG 0 Rank 1] last enqueued NCCL work: 4, last completed NCCL "
             "work: 4.\n")
    out["watchdog_middle3"] = {"console.log": text}

    def nccl(rank, lines):
        host = f"node:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
        head = (f"ncclCommInitRank comm 0x5{rank}0 rank {rank} nranks 3 cudaDev {rank} nvmlDev {rank} busId {rank}000 "
                "commId 0xabc - Init COMPLETE")
        return "".join(host + line + "\n" for line in [head] + [
            f"{kind}: opCount {n:x} sendbuff 0x7f recvbuff 0x7f count {count} datatype 7 op {op} root {root} "
            f"comm 0x5{rank}0 [nranks=3] stream 0x9" for n, (kind, count, op, root) in enumerate(lines)])

    usual = [("AllReduce", 100, 0, 0)] * 3
    out["nccl_root3"] = {"console.log": "".join(
        nccl(r, usual + [("Broadcast", 8, 0, 1 if r == 2 else 0)]) for r in range(3))}
    out["nccl_redop3"] = {"console.log": "".join(
        nccl(r, usual + [("AllReduce", 100, 2 if r == 0 else 0, 0)] + usual) for r in range(3))}
    out["nccl_behind3"] = {f"nccl.rank{r}.log": nccl(r, usual + [("AllReduce", 7, 0, 0)] * (r != 1)) for r in range(3)}
    out["nccl_healthy3"] = {f"nccl.rank{r}.log": nccl(r, usual) for r in range(3)}

    def ras(counts, missing=()):
        status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                  "abort_flag": False}
        ranks = [{"rank": r, "host": "node", "pid": 100 + r, "cuda_dev": r, "nvml_dev": r, "status": status,
                  "collective_counts": own} for r, own in counts.items()]
        lost = [{"rank": r, "host": "node", "pid": 100 + r, "cuda_dev": r, "nvml_dev": r,
                 "status": {"unresponsive": True, "considered_dead": True}} for r in missing]
        return {"nccl_version": "2.28.7", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
                "timestamp": "2026-11-24 10:00:00", "communicators_count": 1, "communicators": [
                    {"hash": "0xabc", "secondary_hash": "0x1", "size": len(ranks) + len(lost),
                     "ranks_count": len(ranks),
                     "missing_ranks_count": len(lost), "ranks": ranks, "missing_ranks": lost}],
                "ras": {"collection_time_sec": 0.1, "timeouts_count": 0}}

    out["ras_behind4"] = {"ras.json": ras({r: {"AllReduce": 11 if r == 2 else 12, "Broadcast": 1} for r in range(4)})}
    out["ras_dead4"] = {"ras.json": ras({r: {"AllReduce": 12, "Broadcast": 1} for r in (0, 1, 3)}, missing=[2])}
    out["ras_kinds4"] = {"ras.json": ras({r: {"AllReduce": 12 - (r == 3), "Broadcast": 1 + (r == 3)}
                                          for r in range(4)})}
    out["ras_healthy4"] = {"ras.json": ras({r: {"AllReduce": 12, "Broadcast": 1} for r in range(4)})}
    return out


def main():
    for name, files in sets().items():
        for file, content in files.items():
            path = f"{sys.argv[1]}/written_{name}/{file}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if file.endswith(".json"):
                data = (json.dumps(content, indent=1) + "\n").encode()
            else:
                data = content.encode() if isinstance(content, str) else pickle.dumps(content, protocol=2)
            with open(path, "wb") as out:
                out.write(data)


if __name__ == "__main__":
    main()
