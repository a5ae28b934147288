"""One rank of a case: run it, and write the record of the Flight Recorder when asked to.

What the parent says comes through stdin, a line each: "size" is answered with the number of recorded calls,
"dump DIR" writes DIR/<name><rank> (pickle) and DIR/<name><rank>.json, "end" ends the process at once. Answers go
to the file descriptor that REPLY_FD names, so that what the case prints stays apart.
"""

import datetime
import json
import os
import sys
import threading
import traceback

import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_file, _dump_fr_trace_json

import cases


def listen(rank, replies):
    for line in sys.stdin:
        words = line.split()
        if words[0] == "size":
            record = json.loads(_dump_fr_trace_json(True, False))
            answer = str(len(record.get("entries", [])))
            answer += "/%s" % max((entry["record_id"] for entry in record.get("entries", [])), default=0)
        elif words[0] == "dump":
            _dump_fr_trace_file(rank, True, True, False)
            with open(f"{words[1]}/comm_lib_trace_rank_{rank}.json", "wb") as out:
                text = _dump_fr_trace_json(True, False)
                out.write(text if isinstance(text, bytes) else text.encode())
            answer = "dumped"
        else:
            os._exit(0)
        replies.write(answer + "\n")
        replies.flush()


def main():
    rank = int(os.environ["RANK"])
    replies = os.fdopen(int(os.environ["REPLY_FD"]), "w")
    limit = datetime.timedelta(seconds=int(os.environ.get("TIMEOUT_S", "600")))
    dist.init_process_group("gloo", timeout=limit)
    threading.Thread(target=listen, args=(rank, replies), daemon=True).start()
    try:
        cases.CASES[sys.argv[1]][0](rank)
    except Exception:  # a rank that is thrown out of a collective still has its record
        traceback.print_exc()
        sys.stderr.flush()
    cases.forever.wait()


if __name__ == "__main__":
    main()
