/* What a scenario may choose from: one table a choice, each an enumeration with its names. A list
 * of names (names.h) gives them to the parser, the printer, the JSON Schema and `ddprove list`. */
#ifndef HARNESS_PLAN_KIND_H
#define HARNESS_PLAN_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/schedule/algorithm.h"
#include "reference/branch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_KIND_ENUM(id, ...) id,

/* X(identifier, name, meaning), in all tables but those that say otherwise. */
#define HARNESS_DRIVER_TABLE(X)                                           \
    X(HARNESS_DRIVER_SIM, "sim", "all ranks in one thread, virtual time") \
    X(HARNESS_DRIVER_PROC, "proc", "one process a rank")
enum harness_driver { HARNESS_DRIVER_TABLE(HARNESS_KIND_ENUM) HARNESS_DRIVER_COUNT };

#define HARNESS_GUEST_LAUNCHER_TABLE(X)                                                       \
    X(HARNESS_GUEST_LAUNCHER_OWN, "own",                                                      \
      "one copy of the command a rank, with torchrun's variables")                            \
    X(HARNESS_GUEST_LAUNCHER_MPIRUN, "mpirun", "mpirun -n RANKS COMMAND")                     \
    X(HARNESS_GUEST_LAUNCHER_TORCHRUN, "torchrun", "torchrun --nproc_per_node RANKS COMMAND") \
    X(HARNESS_GUEST_LAUNCHER_SRUN, "srun", "srun -n RANKS COMMAND, on this host")             \
    X(HARNESS_GUEST_LAUNCHER_ENV, "env",                                                      \
      "the command starts its ranks itself, each with some launcher's variables")
enum harness_guest_launcher {
    HARNESS_GUEST_LAUNCHER_TABLE(HARNESS_KIND_ENUM) HARNESS_GUEST_LAUNCHER_COUNT
};

#define HARNESS_GUEST_ADAPTER_TABLE(X)                                                    \
    X(HARNESS_GUEST_ADAPTER_NONE, "none", "the program does, through the guest library")  \
    X(HARNESS_GUEST_ADAPTER_MPI, "mpi", "a library that is preloaded in front of MPI")    \
    X(HARNESS_GUEST_ADAPTER_NCCL, "nccl", "a library that is preloaded in front of NCCL") \
    X(HARNESS_GUEST_ADAPTER_TORCH, "torch", "a Python package that PyTorch loads")
enum harness_guest_adapter {
    HARNESS_GUEST_ADAPTER_TABLE(HARNESS_KIND_ENUM) HARNESS_GUEST_ADAPTER_COUNT
};

#define HARNESS_BUCKET_ORDER_TABLE(X)                                                              \
    X(HARNESS_BUCKET_ORDER_REVERSE, "reverse", "parameters backwards, a bucket closes at its cap") \
    X(HARNESS_BUCKET_ORDER_PYTORCH, "pytorch",                                                     \
      "PyTorch's: rebuilt after the first step, as gradients became ready on rank 0")
enum harness_bucket_order {
    HARNESS_BUCKET_ORDER_TABLE(HARNESS_KIND_ENUM) HARNESS_BUCKET_ORDER_COUNT
};

#define HARNESS_HOOK_TABLE(X)                                                                    \
    X(HARNESS_HOOK_NONE, "none", "buckets are divided and all-reduced")                          \
    X(HARNESS_HOOK_ALLREDUCE, "allreduce", "the same, by a communication hook")                  \
    X(HARNESS_HOOK_FP16, "fp16", "buckets are rounded to f16, divided and all-reduced")          \
    X(HARNESS_HOOK_BF16, "bf16", "buckets are rounded to bf16, divided and all-reduced")         \
    X(HARNESS_HOOK_QUANTIZE, "quantize",                                                         \
      "buckets are gathered in 8 bits a gradient, and averaged by who receives them")            \
    X(HARNESS_HOOK_POWERSGD, "powersgd",                                                         \
      "from step powersgd_start on matrices travel as products of two thin ones")                \
    X(HARNESS_HOOK_LOCAL_SGD, "local_sgd",                                                       \
      "as allreduce until step local_sgd_start, from which on ranks step alone, and parameters " \
      "are averaged")
enum harness_hook { HARNESS_HOOK_TABLE(HARNESS_KIND_ENUM) HARNESS_HOOK_COUNT };

#define HARNESS_NARROW_TABLE(X)                                  \
    X(HARNESS_NARROW_BF16, "bf16", "8 bits of exponent, as f32") \
    X(HARNESS_NARROW_F16, "f16", "11 bits of precision, to 65504")
enum harness_narrow { HARNESS_NARROW_TABLE(HARNESS_KIND_ENUM) HARNESS_NARROW_COUNT };

#define HARNESS_FLOAT_TABLE(X)                          \
    X(HARNESS_FLOAT_SAME, "same", "the type of params") \
    X(HARNESS_FLOAT_BF16, "bf16", "bf16")               \
    X(HARNESS_FLOAT_F16, "f16", "f16")                  \
    X(HARNESS_FLOAT_F32, "f32", "f32, which is wider than those")
enum harness_float { HARNESS_FLOAT_TABLE(HARNESS_KIND_ENUM) HARNESS_FLOAT_COUNT };

#define HARNESS_GRADIENT_SCALE_TABLE(X)                                       \
    X(HARNESS_GRADIENT_SCALE_PRE, "pre", "gradients are divided, then added") \
    X(HARNESS_GRADIENT_SCALE_POST, "post", "gradients are added, then divided")
enum harness_gradient_scale {
    HARNESS_GRADIENT_SCALE_TABLE(HARNESS_KIND_ENUM) HARNESS_GRADIENT_SCALE_COUNT
};

#define HARNESS_SEMANTICS_TABLE(X)                                                           \
    X(HARNESS_SEMANTICS_STRICT, "strict", "mismatches are refused before they are launched") \
    X(HARNESS_SEMANTICS_PYTORCH, "pytorch", "what PyTorch checks, when PyTorch checks it")
enum harness_semantics { HARNESS_SEMANTICS_TABLE(HARNESS_KIND_ENUM) HARNESS_SEMANTICS_COUNT };

#define HARNESS_RUN_TABLE(X)                                 \
    X(HARNESS_RUN_FIRST, "first", "the run that the job is") \
    X(HARNESS_RUN_RESTORE, "restore", "the second one, that starts from its checkpoint")
enum harness_run { HARNESS_RUN_TABLE(HARNESS_KIND_ENUM) HARNESS_RUN_COUNT };

#define HARNESS_INIT_TABLE(X)                                                                      \
    X(HARNESS_INIT_PER_RANK, "per_rank", "each rank draws its own; those of rank 0 are broadcast") \
    X(HARNESS_INIT_SAME, "same", "all ranks draw rank 0's: a broadcast that is lost goes unseen")
enum harness_init { HARNESS_INIT_TABLE(HARNESS_KIND_ENUM) HARNESS_INIT_COUNT };

#define HARNESS_STORE_TABLE(X)                                                             \
    X(HARNESS_STORE_LAUNCHER, "launcher", "whoever starts the ranks, as torchrun's agent") \
    X(HARNESS_STORE_RANK_0, "rank0",                                                       \
      "as srun's and mpirun's ranks do by themselves; on the proc driver only")
enum harness_store { HARNESS_STORE_TABLE(HARNESS_KIND_ENUM) HARNESS_STORE_COUNT };

#define HARNESS_ON_LOSS_TABLE(X)                                                                \
    X(HARNESS_ON_LOSS_END, "end", "they end with an error, as torchrun's workers do")           \
    X(HARNESS_ON_LOSS_CONTINUE, "continue",                                                     \
      "once, and if they were training: they agree on who lives, make a new group, take state " \
      "from whoever has "                                                                       \
      "done the most steps, and train on; what was left of the epoch is dealt anew")
enum harness_on_loss { HARNESS_ON_LOSS_TABLE(HARNESS_KIND_ENUM) HARNESS_ON_LOSS_COUNT };

#define HARNESS_TRANSPORT_TABLE(X)                                                  \
    X(HARNESS_TRANSPORT_SHM, "shm", "memory that they share: they are on one host") \
    X(HARNESS_TRANSPORT_TCP, "tcp", "sockets, in frames with checksums; 512 ranks at most")
enum harness_transport { HARNESS_TRANSPORT_TABLE(HARNESS_KIND_ENUM) HARNESS_TRANSPORT_COUNT };
#define HARNESS_TRANSPORT_TCP_RANKS_MAX 512u

#define HARNESS_GATHER_TABLE(X)                                                    \
    X(HARNESS_GATHER_BRUCK, "bruck", "1, 2, 4, ... blocks at once: fewest rounds") \
    X(HARNESS_GATHER_RING, "ring", "every block goes once around the ring")        \
    X(HARNESS_GATHER_DOUBLING, "doubling", "partners exchange all that they have")
enum harness_gather { HARNESS_GATHER_TABLE(HARNESS_KIND_ENUM) HARNESS_GATHER_COUNT };

#define HARNESS_DEVICE_TABLE(X)               \
    X(HARNESS_DEVICE_CPU, "cpu", "host code") \
    X(HARNESS_DEVICE_CUDA, "cuda", "GPUs; on the proc driver only")
enum harness_device { HARNESS_DEVICE_TABLE(HARNESS_KIND_ENUM) HARNESS_DEVICE_COUNT };

#define HARNESS_PREFIX_TABLE(X)                                                               \
    X(HARNESS_PREFIX_AUTO, "auto", "`module.` is added or removed where that makes keys fit") \
    X(HARNESS_PREFIX_EXACT, "exact", "keys must fit as they are")                             \
    X(HARNESS_PREFIX_PYTORCH, "pytorch", "a bare model strips one `module.`, then keys must fit")
enum harness_prefix { HARNESS_PREFIX_TABLE(HARNESS_KIND_ENUM) HARNESS_PREFIX_COUNT };

#define HARNESS_LEAK_TABLE(X)                                       \
    X(HARNESS_LEAK_PROCESS, "process", "a process that still runs") \
    X(HARNESS_LEAK_SHM, "shm", "a shared memory file")              \
    X(HARNESS_LEAK_FD, "fd", "an open file descriptor")
enum harness_leak { HARNESS_LEAK_TABLE(HARNESS_KIND_ENUM) HARNESS_LEAK_COUNT };

/* X(identifier, name, keys of job.optimizer that only some optimizers take, meaning) */
#define HARNESS_OPTIMIZER_TABLE(X)                                                    \
    X(HARNESS_OPTIMIZER_SGD, "sgd", "momentum dampening nesterov", "torch.optim.SGD") \
    X(HARNESS_OPTIMIZER_ADAMW, "adamw", "beta1 beta2 eps", "torch.optim.AdamW")
enum harness_optimizer_kind { HARNESS_OPTIMIZER_TABLE(HARNESS_KIND_ENUM) HARNESS_OPTIMIZER_COUNT };

#define HARNESS_EVALUATION_TABLE(X)                                \
    X(HARNESS_EVALUATION_SHARDED, "sharded",                       \
      "each rank its share, without padding; then one all-gather") \
    X(HARNESS_EVALUATION_RANK0, "rank0", "rank 0 all samples; nothing is posted")
enum harness_evaluation { HARNESS_EVALUATION_TABLE(HARNESS_KIND_ENUM) HARNESS_EVALUATION_COUNT };

#define HARNESS_LR_SCALING_TABLE(X)                                     \
    X(HARNESS_LR_SCALING_NONE, "none", "not at all")                    \
    X(HARNESS_LR_SCALING_LINEAR, "linear", "times the number of ranks") \
    X(HARNESS_LR_SCALING_SQRT, "sqrt", "times its square root")
enum harness_lr_scaling { HARNESS_LR_SCALING_TABLE(HARNESS_KIND_ENUM) HARNESS_LR_SCALING_COUNT };

#define HARNESS_LR_DECAY_TABLE(X)                  \
    X(HARNESS_LR_DECAY_NONE, "none", "not at all") \
    X(HARNESS_LR_DECAY_COSINE, "cosine",           \
      "by (1 + cos(pi x)) / 2, x from 0 after the warm-up to 1 after the last step")
enum harness_lr_decay { HARNESS_LR_DECAY_TABLE(HARNESS_KIND_ENUM) HARNESS_LR_DECAY_COUNT };

/* X(identifier, name, keys of `do` that it takes, meaning) */
#define HARNESS_CORRUPT_TABLE(X)                                                                  \
    X(HARNESS_CORRUPT_ZERO, "zero", "", "every element becomes 0: the contribution is lost")      \
    X(HARNESS_CORRUPT_DOUBLE, "double", "", "every element times 2: the contribution is doubled") \
    X(HARNESS_CORRUPT_HALF, "half", "", "every element times 1/2")                                \
    X(HARNESS_CORRUPT_SCALE, "scale", "value", "every element times `value`")                     \
    X(HARNESS_CORRUPT_SHIFT, "shift", "value", "elements move up by `value` places (default 1)")  \
    X(HARNESS_CORRUPT_NAN, "nan", "elem", "element `elem` becomes NaN")                           \
    X(HARNESS_CORRUPT_FLIP, "flip", "bit bits elem count stride stays",                           \
      "`bits` bits from `bit` on flip in element `elem`")                                         \
    X(HARNESS_CORRUPT_SET, "set", "value elem ago", "element `elem` becomes `value`")             \
    X(HARNESS_CORRUPT_ROUND_BF16, "round_bf16", "", "every element is rounded to bf16")           \
    X(HARNESS_CORRUPT_ROUND_F16, "round_f16", "", "every element is rounded to f16")              \
    X(HARNESS_CORRUPT_ROUND_TF32, "round_tf32", "", "every element is rounded to tf32's 11 bits")
enum harness_corrupt_kind { HARNESS_CORRUPT_TABLE(HARNESS_KIND_ENUM) HARNESS_CORRUPT_KIND_COUNT };

/* Damage done to a checkpoint before it is loaded.
 * X(identifier, name, keys of `restore` that it takes, meaning) */
#define HARNESS_EDIT_TABLE(X)                                                             \
    X(HARNESS_EDIT_NONE, "none", "", "the checkpoint is loaded as it was written")        \
    X(HARNESS_EDIT_ADD_PREFIX, "add_prefix", "", "one more module. on every key")         \
    X(HARNESS_EDIT_DOUBLE_PREFIX, "double_prefix", "", "two more module. on every key")   \
    X(HARNESS_EDIT_MIXED_PREFIX, "mixed_prefix", "", "module. on every second key")       \
    X(HARNESS_EDIT_DROP_KEY, "drop_key", "key", "the key `key` is removed")               \
    X(HARNESS_EDIT_EXTRA_KEY, "extra_key", "key", "a key `key` is added")                 \
    X(HARNESS_EDIT_TRUNCATE, "truncate", "", "the file loses its last bytes")             \
    X(HARNESS_EDIT_FLIP_BYTE, "flip_byte", "key", "one byte of the tensor `key` changes") \
    X(HARNESS_EDIT_HEAD, "head", "bytes", "only the first `bytes` bytes are left")        \
    X(HARNESS_EDIT_HEADER_SIZE, "header_size", "bytes",                                   \
      "the file claims a header of `bytes` bytes")                                        \
    X(HARNESS_EDIT_HEADER, "header", "find put everywhere", "in the header, `find` becomes `put`")
enum harness_edit_kind { HARNESS_EDIT_TABLE(HARNESS_KIND_ENUM) HARNESS_EDIT_KIND_COUNT };

/* What a fault does to the keys that a guest saves. X(identifier, name, meaning) */
#define HARNESS_KEY_EDIT_TABLE(X)                                                     \
    X(HARNESS_KEY_EDIT_STRIP_PREFIX, "strip_prefix", "one module. less on every key") \
    X(HARNESS_KEY_EDIT_ADD_PREFIX, "add_prefix", "one more module. on every key")
enum harness_key_edit { HARNESS_KEY_EDIT_TABLE(HARNESS_KIND_ENUM) HARNESS_KEY_EDIT_COUNT };

/* Fields of a collective's arguments. X(identifier, name, list of names that its values have) */
#define HARNESS_ARG_TABLE(X)              \
    X(HARNESS_ARG_KIND, "kind", KINDS)    \
    X(HARNESS_ARG_COUNT, "count", NONE)   \
    X(HARNESS_ARG_DTYPE, "dtype", DTYPES) \
    X(HARNESS_ARG_REDOP, "redop", REDOPS) \
    X(HARNESS_ARG_ROOT, "root", NONE)     \
    X(HARNESS_ARG_INDEX, "index", NONE)
enum harness_arg_field { HARNESS_ARG_TABLE(HARNESS_KIND_ENUM) HARNESS_ARG_FIELD_COUNT };

/* Signals that `kill` may send; SIGSTOP is `stop`. X(identifier): also its name. */
#define HARNESS_SIGNAL_TABLE(X) \
    X(SIGHUP)                   \
    X(SIGINT)                   \
    X(SIGQUIT)                  \
    X(SIGILL)                   \
    X(SIGABRT)                  \
    X(SIGBUS)                   \
    X(SIGFPE)                   \
    X(SIGKILL)                  \
    X(SIGUSR1)                  \
    X(SIGSEGV)                  \
    X(SIGUSR2)                  \
    X(SIGPIPE)                  \
    X(SIGTERM)

/* Calls that a fault may strike: those of a rank's files; from socket on those of its process, on
 * real processes only. The points are libfiu's own; those that its preload library does not know
 * are asked at in harness/inject/socket.c. X(identifier, name, point, what it is used for) */
#define HARNESS_IO_CALL_TABLE(X)                                                                 \
    X(HARNESS_IO_OPEN, "open", "posix/io/oc/open", "make a file, read one, sync its folder")     \
    X(HARNESS_IO_READ, "read", "posix/io/rw/read", "read a checkpoint")                          \
    X(HARNESS_IO_WRITE, "write", "posix/io/rw/write", "write a part of a file")                  \
    X(HARNESS_IO_FSYNC, "fsync", "posix/io/sync/fsync", "sync a file, and the folder it is in")  \
    X(HARNESS_IO_CLOSE, "close", "posix/io/oc/close", "close a file")                            \
    X(HARNESS_IO_SOCKET, "socket", "posix/io/net/socket", "reach the store, a rank over tcp")    \
    X(HARNESS_IO_CONNECT, "connect", "posix/io/net/connect", "reach the store, a rank over tcp") \
    X(HARNESS_IO_SEND, "send", "posix/io/net/send", "ask the store, send over tcp")              \
    X(HARNESS_IO_RECV, "recv", "posix/io/net/recv", "hear from the store, receive over tcp")     \
    X(HARNESS_IO_FTRUNCATE, "ftruncate", "posix/io/rw/ftruncate", "size shared memory")          \
    X(HARNESS_IO_MMAP, "mmap", "posix/mm/mmap", "map shared memory")                             \
    X(HARNESS_IO_LISTEN, "listen", "posix/io/net/listen", "be reached by ranks over tcp")        \
    X(HARNESS_IO_ACCEPT, "accept", "ddprove/accept", "let in a rank over tcp")                   \
    X(HARNESS_IO_SETSOCKOPT, "setsockopt", "ddprove/setsockopt", "set a connection up")          \
    X(HARNESS_IO_EPOLL_CREATE, "epoll_create", "ddprove/epoll_create", "watch connections")      \
    X(HARNESS_IO_EPOLL_CTL, "epoll_ctl", "ddprove/epoll_ctl", "watch one more connection")       \
    X(HARNESS_IO_EPOLL_WAIT, "epoll_wait", "ddprove/epoll_wait", "see which ones have news")     \
    X(HARNESS_IO_GETRANDOM, "getrandom", "ddprove/getrandom", "draw a number for a connection")
enum harness_io_call { HARNESS_IO_CALL_TABLE(HARNESS_KIND_ENUM) HARNESS_IO_CALL_COUNT };
/* A call of a rank's process, not of its files. */
static inline bool harness_io_is_of_process(enum harness_io_call call)
{
    return call >= HARNESS_IO_SOCKET;
}

/* What they may fail with. X(identifier): also its name. */
#define HARNESS_ERRNO_TABLE(X) \
    X(EACCES)                  \
    X(EAGAIN)                  \
    X(ECONNREFUSED)            \
    X(ECONNRESET)              \
    X(EDQUOT)                  \
    X(EHOSTUNREACH)            \
    X(EINTR)                   \
    X(EIO)                     \
    X(EMFILE)                  \
    X(ENETUNREACH)             \
    X(ENFILE)                  \
    X(ENOMEM)                  \
    X(ENOSPC)                  \
    X(EPIPE)                   \
    X(EROFS)                   \
    X(ETIMEDOUT)

/* Who connects to where a rank listens for the others of its group, and is none of them.
 * X(identifier, name, meaning) */
#define HARNESS_STRANGER_TABLE(X)                                                                \
    X(HARNESS_STRANGER_NONE, "none", "nobody")                                                   \
    X(HARNESS_STRANGER_SILENT, "silent", "says nothing and stays")                               \
    X(HARNESS_STRANGER_RUBBISH, "rubbish", "sends a page's request, as a scanner of ports does") \
    X(HARNESS_STRANGER_PART, "part", "sends the beginning of a greeting and stays")              \
    X(HARNESS_STRANGER_GREETING, "greeting",                                                     \
      "greets as a rank of another job would, which was told another number")                    \
    X(HARNESS_STRANGER_GONE, "gone", "has left before it is let in")                             \
    X(HARNESS_STRANGER_RESET, "reset", "has reset its connection before it is let in")
enum harness_stranger { HARNESS_STRANGER_TABLE(HARNESS_KIND_ENUM) HARNESS_STRANGER_COUNT };

/* Variables by which launchers tell a rank who it is (ddpcore/store/store.h).
 * X(identifier, name, meaning) */
#define HARNESS_VARIABLE_TABLE(X)                                                              \
    X(HARNESS_VARIABLE_RANK, "RANK", "torchrun: number of the rank")                           \
    X(HARNESS_VARIABLE_WORLD_SIZE, "WORLD_SIZE", "torchrun: number of ranks")                  \
    X(HARNESS_VARIABLE_LOCAL_RANK, "LOCAL_RANK", "torchrun: number of the rank on its host")   \
    X(HARNESS_VARIABLE_MASTER_ADDR, "MASTER_ADDR", "where the store is")                       \
    X(HARNESS_VARIABLE_MASTER_PORT, "MASTER_PORT", "and at which port")                        \
    X(HARNESS_VARIABLE_AGENT_STORE, "TORCHELASTIC_USE_AGENT_STORE",                            \
      "the launcher hosts the store, not rank 0")                                              \
    X(HARNESS_VARIABLE_OMPI_RANK, "OMPI_COMM_WORLD_RANK", "Open MPI: number of the rank")      \
    X(HARNESS_VARIABLE_OMPI_SIZE, "OMPI_COMM_WORLD_SIZE", "Open MPI: number of ranks")         \
    X(HARNESS_VARIABLE_OMPI_LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI: on its host") \
    X(HARNESS_VARIABLE_OMPI_LOCAL_SIZE, "OMPI_COMM_WORLD_LOCAL_SIZE",                          \
      "Open MPI: ranks on its host")                                                           \
    X(HARNESS_VARIABLE_OMPI_JOB, "PMIX_NAMESPACE", "Open MPI: the job")                        \
    X(HARNESS_VARIABLE_SLURM_RANK, "SLURM_PROCID", "Slurm: number of the rank")                \
    X(HARNESS_VARIABLE_SLURM_SIZE, "SLURM_NTASKS", "Slurm: number of ranks")                   \
    X(HARNESS_VARIABLE_SLURM_LOCAL_RANK, "SLURM_LOCALID", "Slurm: on its host")                \
    X(HARNESS_VARIABLE_SLURM_STEP_NODES, "SLURM_STEP_NODELIST", "Slurm: hosts of the step")    \
    X(HARNESS_VARIABLE_SLURM_NODES, "SLURM_JOB_NODELIST", "Slurm: hosts of the job")           \
    X(HARNESS_VARIABLE_SLURM_JOB, "SLURM_JOB_ID", "Slurm: the job")                            \
    X(HARNESS_VARIABLE_PMI_RANK, "PMI_RANK", "PMI: number of the rank")                        \
    X(HARNESS_VARIABLE_PMI_SIZE, "PMI_SIZE", "PMI: number of ranks")                           \
    X(HARNESS_VARIABLE_PMI_LOCAL_RANK, "MPI_LOCALRANKID", "PMI: on its host")                  \
    X(HARNESS_VARIABLE_PMI_LOCAL_SIZE, "MPI_LOCALNRANKS", "PMI: ranks on its host")            \
    X(HARNESS_VARIABLE_PMI_JOB, "PMI_JOBID", "PMI: the job")
enum harness_variable { HARNESS_VARIABLE_TABLE(HARNESS_KIND_ENUM) HARNESS_VARIABLE_COUNT };

/* Where an action may be used. X(identifier, what any other point is told) */
#define HARNESS_PLACE_TABLE(X)                                                                    \
    X(HARNESS_PLACE_ANYWHERE, "")                                                                 \
    X(HARNESS_PLACE_DATA, "carries no data to corrupt; as backward/grad_ready, bucket/launch or " \
                          "collective/post do")                                                   \
    X(HARNESS_PLACE_ARGS, "has no arguments to change; collective/pre has")                       \
    X(HARNESS_PLACE_STREAM, "has no stream for a kernel in this job; forward/layer, "             \
                            "optimizer/pre and collective/launch on device cuda have")            \
    X(HARNESS_PLACE_TWICE, "cannot be done twice; collective/pre, data/next and "                 \
                           "message/recv can")                                                    \
    X(HARNESS_PLACE_SKIPPABLE, "leaves nothing out when it is skipped; bucket/launch, "           \
                               "optimizer/pre and others do")                                     \
    X(HARNESS_PLACE_MESSAGE, "has no next one that could come first; message/recv has")           \
    X(HARNESS_PLACE_LAUNCH, "comes too late for it; launch/spawn does not")                       \
    X(HARNESS_PLACE_EDITS, "has no keys to change in this job; a guest's checkpoint/key has")     \
    X(HARNESS_PLACE_GUEST, "is one of ddprove's own ranks, which wait for no fault; a guest's do")
enum harness_action_place { HARNESS_PLACE_TABLE(HARNESS_KIND_ENUM) HARNESS_PLACE_COUNT };

/* What a fault does: the rows ACTION and ACTION_PLAIN of key.def. */
enum harness_action_kind {
#define ACTION(id, ...)       HARNESS_ACTION_##id,
#define ACTION_PLAIN(id, ...) HARNESS_ACTION_##id,
#include "harness/plan/key.def"
    HARNESS_ACTION_KIND_COUNT
};

/* What moves the data of collectives. X(identifier, name, device whose memory it moves, meaning)
 * An engine with a name is opaque. NULL: the collective has the name of its schedule, "ring",
 * "nccl/ring", or the path of a plug-in.
 */
#define HARNESS_ENGINE_TABLE(X)                                                                    \
    X(HARNESS_ENGINE_SCHEDULE, NULL, HARNESS_DEVICE_CPU, "a schedule on the core's own transport") \
    X(HARNESS_ENGINE_NCCL_SCHEDULE, NULL, HARNESS_DEVICE_CUDA,                                     \
      "one of those above over NCCL's send and receive, on cuda")                                  \
    X(HARNESS_ENGINE_OPAQUE, NULL, HARNESS_DEVICE_CPU, "a plug-in that moves the data itself")     \
    X(HARNESS_ENGINE_MPI, "mpi", HARNESS_DEVICE_CPU,                                               \
      "Open MPI's own, on cpu with --launcher mpirun")                                             \
    X(HARNESS_ENGINE_NCCL, "nccl", HARNESS_DEVICE_CUDA, "NCCL's own, on cuda")
enum harness_engine { HARNESS_ENGINE_TABLE(HARNESS_KIND_ENUM) HARNESS_ENGINE_COUNT };
struct harness_engine_traits {
    const char *name;
    enum harness_device device;
    const char *meaning;
};
const struct harness_engine_traits *harness_engine_traits(enum harness_engine engine);
/* The order of its sums is not known until it was measured, and it has real processes only. */
bool harness_engine_is_opaque(enum harness_engine engine);

struct harness_collective {
    enum harness_engine engine;
    enum ddp_algorithm_id algorithm; /* of a schedule; NONE: the engine chooses */
    const char *plugin; /* path of the shared object that does it; NULL: none. Borrowed */
};
/* Collectives that a job may name, in the order of the list; false past its end. */
bool harness_collective_at(size_t index, struct harness_collective *out, const char **out_name);
const char *harness_collective_name(struct harness_collective collective);

/* Tables whose rows begin with identifier and name, as lists of names (names.h).
 * X(list, what an entry is, for messages, table) */
#define HARNESS_KIND_NAMES_TABLE(X)                                          \
    X(DRIVERS, "driver", HARNESS_DRIVER_TABLE)                               \
    X(CORRUPTS, "corruption", HARNESS_CORRUPT_TABLE)                         \
    X(ARGS, "argument", HARNESS_ARG_TABLE)                                   \
    X(IO_CALLS, "call", HARNESS_IO_CALL_TABLE)                               \
    X(STRANGERS, "stranger", HARNESS_STRANGER_TABLE)                         \
    X(VARIABLES, "variable", HARNESS_VARIABLE_TABLE)                         \
    X(EDITS, "edit", HARNESS_EDIT_TABLE)                                     \
    X(KEY_EDITS, "edit of keys", HARNESS_KEY_EDIT_TABLE)                     \
    X(OPTIMIZERS, "optimizer", HARNESS_OPTIMIZER_TABLE)                      \
    X(EVALUATIONS, "evaluation", HARNESS_EVALUATION_TABLE)                   \
    X(LR_SCALINGS, "scaling of the learning rate", HARNESS_LR_SCALING_TABLE) \
    X(LR_DECAYS, "decay of the learning rate", HARNESS_LR_DECAY_TABLE)       \
    X(BUCKET_ORDERS, "bucket order", HARNESS_BUCKET_ORDER_TABLE)             \
    X(GRADIENT_SCALES, "gradient scale", HARNESS_GRADIENT_SCALE_TABLE)       \
    X(HOOKS, "hook", HARNESS_HOOK_TABLE)                                     \
    X(NARROWS, "type of 16 bits", HARNESS_NARROW_TABLE)                      \
    X(FLOATS, "type of floats", HARNESS_FLOAT_TABLE)                         \
    X(SEMANTICS, "semantics", HARNESS_SEMANTICS_TABLE)                       \
    X(INITS, "initialisation", HARNESS_INIT_TABLE)                           \
    X(RUNS, "run", HARNESS_RUN_TABLE)                                        \
    X(PREFIXES, "prefix rule", HARNESS_PREFIX_TABLE)                         \
    X(LEAKS, "leak", HARNESS_LEAK_TABLE)                                     \
    X(STORES, "host of the store", HARNESS_STORE_TABLE)                      \
    X(ON_LOSSES, "reaction to a loss", HARNESS_ON_LOSS_TABLE)                \
    X(TRANSPORTS, "transport", HARNESS_TRANSPORT_TABLE)                      \
    X(GATHERS, "all-gather algorithm", HARNESS_GATHER_TABLE)                 \
    X(GUEST_LAUNCHERS, "launcher", HARNESS_GUEST_LAUNCHER_TABLE)             \
    X(GUEST_ADAPTERS, "adapter", HARNESS_GUEST_ADAPTER_TABLE)                \
    X(DEVICES, "device", HARNESS_DEVICE_TABLE)                               \
    X(BRANCHES, "branch rule", REF_BRANCH_TABLE)

#ifdef __cplusplus
}
#endif
#endif
