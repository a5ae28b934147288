/* The guest library: what a training program that ddprove did not write shows to `ddprove exec`,
 * and where faults are let into it. Plain C, no dependencies beyond the C library and threads.
 *
 * Every function may be called from any thread, at any time, from before `main` until the end.
 * Without `ddprove exec` around it a call does nothing and takes about 2 ns; nothing is printed, no
 * signal handler is installed, no thread is started. A process that was forked by a watched one is
 * not watched.
 *
 * The smallest use, around an all-reduce of one's own:
 *
 *     ddprove_guest_attach(rank, world_size);
 *     uint32_t comm = ddprove_guest_comm_create(1, rank, world_size, "world");
 *     ...
 *     struct ddprove_guest_call call = {
 *         .size_bytes = sizeof call, .comm = comm, .kind = DDPROVE_GUEST_ALL_REDUCE,
 *         .dtype = DDPROVE_GUEST_F32, .redop = DDPROVE_GUEST_SUM, .elem_count = n,
 *         .in = gradient, .out = gradient};
 *     for (int go = ddprove_guest_call_begin(&call); go > 0; go--) {
 *         my_all_reduce(call.in, call.out, call.elem_count);
 *     }
 *     ddprove_guest_call_end(&call);
 */
#ifndef DDPROVE_GUEST_H
#define DDPROVE_GUEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDPROVE_GUEST_API __attribute__((visibility("default")))

/* Of this header. A library serves programs that were built with an older one. */
#define DDPROVE_GUEST_VERSION 4

/* What a call moves. X(identifier, name) */
#define DDPROVE_GUEST_KIND_TABLE(X)               \
    X(ALL_REDUCE, "all_reduce")                   \
    X(BROADCAST, "broadcast")                     \
    X(ALL_GATHER, "all_gather")                   \
    X(BARRIER, "barrier")                         \
    X(REDUCE, "reduce")                           \
    X(REDUCE_SCATTER, "reduce_scatter")           \
    X(GATHER, "gather")                           \
    X(SCATTER, "scatter")                         \
    X(ALL_TO_ALL, "all_to_all")                   \
    X(SCAN, "scan")                               \
    X(EXSCAN, "exscan")                           \
    X(SEND, "send")                               \
    X(RECV, "recv")                               \
    X(COMM_CREATE, "comm_create")                 \
    X(OTHER, "other")                             \
    X(NEIGHBOR_ALL_GATHER, "neighbor_all_gather") \
    X(NEIGHBOR_ALL_TO_ALL, "neighbor_all_to_all")
enum ddprove_guest_kind {
#define X(id, name) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_KIND_TABLE(X)
#undef X
        DDPROVE_GUEST_KIND_COUNT
};

/* What an element is. X(identifier, name, bytes); of BYTES, an element is whatever the caller
 * counts. Of floats of 8 bits the values are not judged. */
#define DDPROVE_GUEST_DTYPE_TABLE(X) \
    X(BYTES, "bytes", 1)             \
    X(U8, "u8", 1)                   \
    X(I8, "i8", 1)                   \
    X(I16, "i16", 2)                 \
    X(U16, "u16", 2)                 \
    X(I32, "i32", 4)                 \
    X(U32, "u32", 4)                 \
    X(I64, "i64", 8)                 \
    X(U64, "u64", 8)                 \
    X(F16, "f16", 2)                 \
    X(BF16, "bf16", 2)               \
    X(F32, "f32", 4)                 \
    X(F64, "f64", 8)                 \
    X(F8E4M3, "f8e4m3", 1)           \
    X(F8E5M2, "f8e5m2", 1)
enum ddprove_guest_dtype {
#define X(id, name, size_bytes) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
        DDPROVE_GUEST_DTYPE_COUNT
};

/* How contributions are combined. X(identifier, name); USER: a function of the program's own. LXOR:
 * one is true and the other is not. MINLOC, MAXLOC: of pairs, the one with the least value, or the
 * largest. */
#define DDPROVE_GUEST_REDOP_TABLE(X) \
    X(NO_REDOP, "none")              \
    X(SUM, "sum")                    \
    X(AVG, "avg")                    \
    X(PROD, "prod")                  \
    X(MIN, "min")                    \
    X(MAX, "max")                    \
    X(LAND, "land")                  \
    X(LOR, "lor")                    \
    X(BAND, "band")                  \
    X(BOR, "bor")                    \
    X(BXOR, "bxor")                  \
    X(USER, "user")                  \
    X(LXOR, "lxor")                  \
    X(MINLOC, "minloc")              \
    X(MAXLOC, "maxloc")
enum ddprove_guest_redop {
#define X(id, name) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_REDOP_TABLE(X)
#undef X
        DDPROVE_GUEST_REDOP_COUNT
};

/* What the program is doing. The numbers are those of ddprove's own phases (ddpcore/seam/phase.h).
 */
enum ddprove_guest_phase {
    DDPROVE_GUEST_PHASE_INIT = 2,
    DDPROVE_GUEST_PHASE_DATA = 3,
    DDPROVE_GUEST_PHASE_FORWARD = 4,
    DDPROVE_GUEST_PHASE_LOSS = 5,
    DDPROVE_GUEST_PHASE_BACKWARD = 6,
    DDPROVE_GUEST_PHASE_REDUCE = 7,
    DDPROVE_GUEST_PHASE_OPTIMIZER = 8,
    DDPROVE_GUEST_PHASE_BUFFER = 9,
    DDPROVE_GUEST_PHASE_CHECKPOINT = 10,
    DDPROVE_GUEST_PHASE_TEARDOWN = 13
};

/* Show this process to ddprove as a rank of the job. rank, world_size: -1 if the program does not
 * know them; then the variables of its launcher say them (RANK and WORLD_SIZE, OMPI_COMM_WORLD_*,
 * PMI_*, SLURM_PROCID and SLURM_NTASKS). Returns 1 if the process is watched from now on, else 0:
 * nobody watches, the rank is not one of the job's, or another living process is this rank. A
 * second call changes nothing. */
DDPROVE_GUEST_API int ddprove_guest_attach(int rank, int world_size);
/* The program has come to its good end: whatever follows is not waited for. */
DDPROVE_GUEST_API void ddprove_guest_detach(void);
/* Whether the process is watched. An adapter that must do work of its own for a call asks first. */
DDPROVE_GUEST_API int ddprove_guest_is_watched(void);

/* From now on no other thread makes a call while one is inside of one, as MPI says of every level
 * below MPI_THREAD_MULTIPLE: then ranks that wait for each other are known to be stuck at once. */
DDPROVE_GUEST_API void ddprove_guest_one_thread(void);

/* Where the program is. Steps and micro-batches count from 0. */
DDPROVE_GUEST_API void ddprove_guest_step(uint64_t step);
DDPROVE_GUEST_API void ddprove_guest_micro(uint32_t micro);
DDPROVE_GUEST_API void ddprove_guest_phase(enum ddprove_guest_phase phase);

/* A communicator: an ordered group of ranks whose collectives match in order. key: the same number
 * on all its members and on no other communicator of the job that lives at the same time. rank,
 * size: within it. name: of up to 31 bytes, for reports; may be NULL. Returns its handle in this
 * process, 0 if nobody watches or more than 64 live at once (then its calls are not seen). */
DDPROVE_GUEST_API uint32_t ddprove_guest_comm_create(uint64_t key, uint32_t rank, uint32_t size,
                                                     const char *name);
/* The same for messages from one rank (rank 0 of two) to another one (rank 1), whose n-th send
 * meets the n-th receive, in whatever step of the job either of them is. */
DDPROVE_GUEST_API uint32_t ddprove_guest_pair_create(uint64_t key, uint32_t rank, const char *name);
/* It is used no more. */
DDPROVE_GUEST_API void ddprove_guest_comm_free(uint32_t comm);
/* A key for a communicator made from another one by all of its members in the same order, the n-th
 * in this process (split, duplicate); color tells the parts of a split apart. */
DDPROVE_GUEST_API uint64_t ddprove_guest_comm_child_key(uint32_t parent, uint64_t color);

/* One call of a collective, from its post to its end. The caller sets the first part; ddprove may
 * change what the call is about (a fault), so the caller uses the struct's values, not its own.
 * Zero-initialise. */
struct ddprove_guest_call {
    uint32_t size_bytes; /* sizeof(struct ddprove_guest_call) */
    uint32_t comm;       /* handle */
    uint32_t kind;       /* enum ddprove_guest_kind */
    uint32_t dtype;      /* enum ddprove_guest_dtype */
    uint32_t redop;      /* enum ddprove_guest_redop; NO_REDOP where nothing is reduced */
    uint32_t root; /* its rank within the communicator, or of a send or receive the other one's;
                      else 0 */
    uint64_t elem_count; /* of a part, as MPI counts: of what one rank puts in; of reduce_scatter,
                            scatter and all_to_all of what it sends to each member */
    /* What this rank puts in, in host memory: a part, or one for each member (reduce_scatter,
     * all_to_all, and the root's of scatter). Nobody may change it until the call has ended. NULL:
     * none, or not readable by the host. */
    const void *in;
    void *out;          /* the result likewise, readable once the call has ended */
    uint64_t out_count; /* elements of out; 0: elem_count */
    uint32_t bucket;    /* 1 + number of the gradient bucket; 0: none, or not known */
    const char *name;   /* of the buffer, for reports; NULL: none. Copied, up to 31 bytes */

    /* The library's; read only. */
    uint64_t seq;      /* number of the call in its communicator, from 1; 0: not watched */
    uint64_t state[6]; /* private */

    /* The caller's again. Since version 4. */
    uint32_t model; /* whose bucket it is, as ddprove_guest_bucket numbers it; 0: of the only one */
    uint32_t may_overflow; /* not 0: its values are scaled so far up that they may come to infinity
                              now and then, and the program looks for that (GradScaler) */
};

/* A blocking call begins. Returns how often the program is to make it: 1, or by a fault 0 or 2. */
DDPROVE_GUEST_API int ddprove_guest_call_begin(struct ddprove_guest_call *call);
/* It has ended, the result is in call->out. */
DDPROVE_GUEST_API void ddprove_guest_call_end(struct ddprove_guest_call *call);

/* The same in parts, for a call that does not block: post it (returns as call_begin), wait for it
 * once or several times, and say that it is done. The struct lives from the post until it is done.
 */
DDPROVE_GUEST_API int ddprove_guest_call_post(struct ddprove_guest_call *call);
DDPROVE_GUEST_API void ddprove_guest_call_wait_begin(const struct ddprove_guest_call *call);
DDPROVE_GUEST_API void ddprove_guest_call_wait_end(const struct ddprove_guest_call *call);
DDPROVE_GUEST_API void ddprove_guest_call_done(struct ddprove_guest_call *call);
/* In place of done: the call has failed and has no result. If the program ends by this error, that
 * follows from whoever made the call fail. (For a blocking call: wait_end, then this, in place of
 * end.) Since version 3. */
DDPROVE_GUEST_API void ddprove_guest_call_failed(struct ddprove_guest_call *call);

/* This thread waits for ranks, whatever they post: for one of two members of the communicator, by
 * their places in it; other: -1, for one; both -1: for anybody. Until it says that this is over, or
 * waits in a call. Since version 4. */
DDPROVE_GUEST_API void ddprove_guest_wait_for(uint32_t comm, int rank, int other);
DDPROVE_GUEST_API void ddprove_guest_wait_over(void);

/* From now on this gradient bucket (counted from 0) of this model (the program's number for it; 0
 * if it has one) holds these parameters. Calls that are posted later, with `bucket` and `model`
 * set, are named by them, and compared: all ranks' buckets hold the same in the same order. names:
 * of up to 255 bytes each, in the order in which they lie there. Since version 4. */
DDPROVE_GUEST_API void ddprove_guest_bucket(uint32_t model, uint32_t bucket,
                                            const char *const *names, uint32_t count);

/* --- places where faults may act, beside calls and steps. Since version 4 ---
 */

/* X(identifier, name): the names are those of `ddprove list points`, which says what each is. */
#define DDPROVE_GUEST_POINT_TABLE(X)                                                             \
    X(DATA_NEXT, "data/next")            /* 0: the batch is lost; 2: it comes again next time */ \
    X(GRAD_READY, "backward/grad_ready") /* 0: the parameter gets no gradient */                 \
    X(OPTIMIZER_PRE, "optimizer/pre")    /* 0: the update is left out */                         \
    X(PARAM_UPDATED, "optimizer/updated")                                                        \
    X(CHECKPOINT_KEY, "checkpoint/key") /* 0: nothing is saved; or keys are to be changed */
enum ddprove_guest_point {
#define X(id, name) DDPROVE_GUEST_POINT_##id,
    DDPROVE_GUEST_POINT_TABLE(X)
#undef X
        DDPROVE_GUEST_POINT_COUNT
};

/* How the keys of a state dict are to be changed. X(identifier, name) */
#define DDPROVE_GUEST_EDIT_TABLE(X)                                            \
    X(NO_EDIT, "none")                                                         \
    X(STRIP_PREFIX, "strip_prefix") /* a "module." in front of them is lost */ \
    X(ADD_PREFIX, "add_prefix")     /* one more is put there */
enum ddprove_guest_edit {
#define X(id, name) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_EDIT_TABLE(X)
#undef X
        DDPROVE_GUEST_EDIT_COUNT
};

/* The program is at such a place. Zero-initialise. */
struct ddprove_guest_place {
    uint32_t size_bytes; /* sizeof(struct ddprove_guest_place) */
    uint32_t point;      /* enum ddprove_guest_point */
    const char *name;    /* of the parameter or buffer that it is about; NULL: it is about none */
    void *data; /* its gradient or value in host memory, which a fault may change; or NULL */
    uint64_t elem_count; /* of data */
    uint32_t dtype;      /* enum ddprove_guest_dtype */
    uint32_t edit;       /* the library's: enum ddprove_guest_edit */
    uint32_t part;       /* enum ddprove_guest_part */
    uint32_t spare;
};

/* Who has to know earlier whether something is done than what its data are comes by twice. */
enum ddprove_guest_part {
    DDPROVE_GUEST_WHOLE,
    DDPROVE_GUEST_WHETHER, /* only faults that leave out or repeat what comes next */
    DDPROVE_GUEST_WHAT     /* all others */
};

/* Returns how often the program is to do what comes next: 1, or by a fault 0 or 2. */
DDPROVE_GUEST_API int ddprove_guest_pass(struct ddprove_guest_place *place);
/* Whether some fault waits for this rank at this point: who would have to do work to come by asks
 * first. name: of a parameter or buffer; NULL: any. */
DDPROVE_GUEST_API int ddprove_guest_wants(enum ddprove_guest_point point, const char *name);
/* The same of collectives: whether some fault waits for this rank before its calls are made, or
 * behind them. Who shows calls that end on a device then waits for them on the program's thread,
 * where the fault acts on the program. */
DDPROVE_GUEST_API int ddprove_guest_wants_calls(int is_behind);

/* --- the model: only what ddprove is told of it can be judged, and only if it is asked to judge
 * ---
 */

/* What a tensor is. X(identifier, name) */
#define DDPROVE_GUEST_ROLE_TABLE(X) \
    X(PARAMETER, "parameter")       \
    X(BUFFER, "buffer")
enum ddprove_guest_role {
#define X(id, name) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_ROLE_TABLE(X)
#undef X
        DDPROVE_GUEST_ROLE_COUNT
};

/* How a parameter is updated. X(identifier, name) */
#define DDPROVE_GUEST_OPTIMIZER_TABLE(X)              \
    X(OTHER_OPTIMIZER, "other") /* not replayed */    \
    X(SGD, "sgd")               /* torch.optim.SGD */ \
    X(ADAMW, "adamw")           /* torch.optim.AdamW */
enum ddprove_guest_optimizer_kind {
#define X(id, name) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_OPTIMIZER_TABLE(X)
#undef X
        DDPROVE_GUEST_OPTIMIZER_COUNT
};

/* An optimizer's options, as PyTorch names them. Zero-initialise. */
struct ddprove_guest_optimizer {
    uint32_t size_bytes; /* sizeof(struct ddprove_guest_optimizer) */
    uint32_t kind;       /* enum ddprove_guest_optimizer_kind */
    double lr, weight_decay;
    double momentum, dampening; /* sgd */
    uint32_t is_nesterov;       /* sgd */
    double beta1, beta2, eps;   /* adamw */
};

/* A tensor that all ranks hold alike after each update. Zero-initialise. */
struct ddprove_guest_tensor {
    uint32_t size_bytes; /* sizeof(struct ddprove_guest_tensor) */
    uint32_t role;       /* enum ddprove_guest_role */
    uint32_t dtype;      /* enum ddprove_guest_dtype */
    uint32_t spare;
    uint64_t elem_count;
    const char *name; /* of up to 255 bytes (before version 4: 31), for reports; may be NULL */
    const void *data; /* in host memory, as all that follows; faults may change it */
    /* Of parameters. What the optimizer is given; NULL: nothing, it leaves the parameter alone. */
    const void *gradient;
    const void *state[2];  /* its momentum, or its first and second moment; NULL: it has none */
    uint64_t update_count; /* updates that the parameter had before this one */
    const struct ddprove_guest_optimizer *optimizer; /* NULL: not told */
};

/* The optimizer is about to change the model: its tensors are as the last update left them, the
 * gradients are those that it will use. The same tensors on all ranks, in the same order. */
DDPROVE_GUEST_API void ddprove_guest_update_begin(const struct ddprove_guest_tensor *tensors,
                                                  uint32_t count);
/* It has. Without a begin before it, the ranks' models are compared, and the update is not judged.
 */
DDPROVE_GUEST_API void ddprove_guest_updated(const struct ddprove_guest_tensor *tensors,
                                             uint32_t count);

/* Whether somebody looks at what `updated` is given now, or `update_begin`: else a caller may spare
 * itself the table. Since version 4. */
DDPROVE_GUEST_API int ddprove_guest_asks_updated(void);
DDPROVE_GUEST_API int ddprove_guest_asks_update_begin(void);

/* A backward pass of this model, whose sums all ranks take part in, has come to its end, and these
 * parameters got no gradient in it. is_allowed: whoever reduces them looks for such ones
 * (find_unused_parameters). Since version 4. */
DDPROVE_GUEST_API void ddprove_guest_unused(uint32_t model, const char *const *names,
                                            uint32_t count, int is_allowed);

/* A state dict of the model is saved or loaded. Since version 4. */
enum ddprove_guest_keys_of {
    DDPROVE_GUEST_SAVED,
    DDPROVE_GUEST_LOADED,     /* all of it, or it is an error */
    DDPROVE_GUEST_LOADED_PART /* what fits */
};
/* keys: of what is saved, or is loaded. wanted: of the model itself, or of the module that it is
 * loaded into; in any order. Tell of a load before it is tried. */
DDPROVE_GUEST_API void ddprove_guest_keys(enum ddprove_guest_keys_of what, const char *const *keys,
                                          uint32_t key_count, const char *const *wanted,
                                          uint32_t wanted_count);

/* --- the samples --- */

/* Which samples a rank of so many takes. X(identifier, name) */
#define DDPROVE_GUEST_SAMPLER_TABLE(X)                                                    \
    X(ANY_SAMPLER, "any") /* it is known only that no sample is used twice or left out */ \
    X(STRIDED, "strided") /* rank r takes r, r + ranks, r + 2 ranks, ..., then from 0 on again */
enum ddprove_guest_sampler {
#define X(id, name) DDPROVE_GUEST_##id,
    DDPROVE_GUEST_SAMPLER_TABLE(X)
#undef X
        DDPROVE_GUEST_SAMPLER_COUNT
};

/* A pass over the samples. Zero-initialise. */
struct ddprove_guest_epoch {
    uint32_t size_bytes; /* sizeof(struct ddprove_guest_epoch) */
    uint32_t sampler;    /* enum ddprove_guest_sampler */
    uint64_t number;     /* from 0; the same on all ranks */
    uint64_t sample_count;
    uint64_t padded;    /* so many samples may be used again, to fill up the last batches */
    uint64_t dropped;   /* so many may be left out */
    uint32_t is_uneven; /* ranks may use different numbers of samples */
};

/* A pass begins, the one before it has ended. NULL: it has ended, and none begins. One that is
 * broken off is not asked for all of its samples. */
DDPROVE_GUEST_API void ddprove_guest_epoch(const struct ddprove_guest_epoch *epoch);
/* The pass ends before its samples do, and is not asked for those that are left. Since version 4.
 */
DDPROVE_GUEST_API void ddprove_guest_epoch_break(void);
/* The batch on which this rank trains next: numbers of samples, from 0 to below sample_count. */
DDPROVE_GUEST_API void ddprove_guest_batch(const uint64_t *samples, uint64_t count);
/* The same of a loader that numbers the batches of a pass, from 0: one that it lost is missed at
 * once, also where nothing says which samples are due. Since version 4. */
DDPROVE_GUEST_API void ddprove_guest_batch_of(const uint64_t *samples, uint64_t count,
                                              uint64_t number);

#ifdef __cplusplus
}
#endif
#endif
