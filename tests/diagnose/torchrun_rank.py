"""A rank of a job under torchrun; rank 1 goes wrong in the third step, in the way its argument says."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group("gloo")
    for step in range(6):
        if dist.get_rank() == 1 and step == 3:
            if sys.argv[1] == "torchrun_raises":
                raise ValueError("the batch of step 3 is empty")
            if sys.argv[1] == "torchrun_killed":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(3)
        dist.all_reduce(torch.ones(100))


if __name__ == "__main__":
    main()
