/* Purpose: the program of a rank of a team: one size after the other, call after call, and what
 * each call left behind is looked at before the next one begins.
 * Idea: a call is timed alone, from the moment at which all ranks have met; buffers are filled and
 * compared between two meetings, so that no comparison costs a call anything. What a call should
 * leave lies there before the size is begun. Before each call the output holds NaNs, so that a call
 * which does nothing is not taken for the one before it. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/lab/data.h"
#include "harness/lab/engine.h"

struct rank {
    struct harness_lab_shared *shared;
    struct harness_lab_slot *slot;
    struct harness_lab_engine *engine;
    uint32_t number;
    float *input, *output; /* of the engine's memory */
    uint64_t right_hash;   /* of an output that was found right; 0: none was yet */
};

/* --- calls ------------------------------------------------------------------------------------ */

/* Where the input lies in the output of a call in place, in elements, or the output in the input.
 */
static size_t offset_of(const struct rank *rank, size_t elem_count)
{
    return rank->number * elem_count;
}

static void prepare(const struct rank *rank, enum harness_lab_mode mode, size_t elem_count,
                    struct harness_lab_call *call)
{
    const struct harness_lab_request *request = &rank->shared->request;
    size_t in_count = harness_lab_input_elems(request, elem_count);
    size_t out_count = harness_lab_output_elems(request, elem_count);
    const void *numbers = harness_lab_area(rank->shared, rank->number, HARNESS_LAB_INPUT);
    float *own = rank->output;

    *call = (struct harness_lab_call){.redop = DDP_REDOP_SUM,
                                      .dtype = DDP_DTYPE_F32,
                                      .elem_count = elem_count,
                                      .input = rank->input,
                                      .output = rank->output};
    if (request->is_checked) {
        memset(rank->output, 0xff,
               (in_count > out_count ? in_count : out_count) * sizeof(*rank->output));
    }
    if (mode == HARNESS_LAB_APART) {
        return;
    }
    if (request->kind == DDP_COLL_ALL_GATHER) {
        own += offset_of(rank, elem_count);
    } else if (request->kind == DDP_COLL_REDUCE_SCATTER) {
        call->output = rank->output + offset_of(rank, elem_count);
    }
    if (request->kind == DDP_COLL_REDUCE && rank->number != 0) {
        return; /* it has no output */
    }
    call->input = own;
    if (request->is_checked && in_count > 0) {
        memcpy(own, numbers, in_count * sizeof(*own));
    }
}

static void compare(struct rank *rank, enum harness_lab_mode mode, size_t index,
                    const struct harness_lab_call *call)
{
    struct harness_lab_shared *shared = rank->shared;
    struct harness_lab_slot *slot = rank->slot;
    size_t count = harness_lab_output_elems(&shared->request, call->elem_count);
    uint64_t hash =
        shared->request.is_bitwise ? 0 : ddp_hash_bytes(call->output, count * sizeof(float), 0) | 1;
    size_t first = 0;
    uint64_t wrong;

    if (hash != 0 && hash == rank->right_hash) {
        return; /* the same bits as those that were found right */
    }
    wrong = harness_lab_count_wrong(shared, rank->number, call->output, call->elem_count, &first);
    if (wrong > 0 && slot->wrong[index][mode] == 0) {
        slot->first_wrong[index][mode] = first;
    }
    slot->wrong[index][mode] += wrong;
    rank->right_hash = wrong == 0 ? hash : rank->right_hash;
}

static ddp_status measure(struct rank *rank, enum harness_lab_mode mode, size_t index)
{
    struct harness_lab_shared *shared = rank->shared;
    const struct harness_lab_request *request = &shared->request;
    struct ddp_env *env = &rank->engine->env;
    bool may_spin = rank->engine->idle.may_spin;

    rank->right_hash = 0;
    for (uint32_t i = 0; i < request->warmup + request->iters; i++) {
        struct harness_lab_call call;
        uint64_t begin_ns, end_ns;
        ddp_status status;

        prepare(rank, mode, request->elem_count[index], &call);
        (void)harness_lab_gate(shared, may_spin);
        begin_ns = ddp_clock_now_ns(env->clock);
        status = rank->engine->ops->run(rank->engine, &call);
        end_ns = ddp_clock_now_ns(env->clock);
        if (status != DDP_OK) {
            return status;
        }
        if (i >= request->warmup) {
            rank->slot->ns[mode][i - request->warmup] = end_ns - begin_ns;
        }
        if (request->is_checked && request->kind != DDP_COLL_BARRIER) {
            compare(rank, mode, index, &call);
        }
    }
    return DDP_OK;
}

/* --- sizes ------------------------------------------------------------------------------------ */

struct awaited {
    const struct harness_lab_shared *shared;
    uint32_t ready;
};

static ddp_status awaited_poll(void *self)
{
    const struct awaited *awaited = self;

    return __atomic_load_n(&awaited->shared->ready, __ATOMIC_ACQUIRE) >= awaited->ready
               ? DDP_OK
               : DDP_PENDING;
}

/* A rank that ends has said why; ddprove ends the others. */
static ddp_status measure_all(struct rank *rank)
{
    const struct harness_lab_request *request = &rank->shared->request;
    struct ddp_env *env = &rank->engine->env;

    for (size_t index = 0; index < request->size_count; index++) {
        for (unsigned mode = 0; mode < HARNESS_LAB_MODES; mode++) {
            struct awaited awaited = {rank->shared, (uint32_t)(2 * index + mode + 1)};
            const struct ddp_pollable pollable = {awaited_poll, NULL, &awaited};

            DDP_TRY(ddp_wait(env->idle, env->clock, &pollable, DDP_DEADLINE_NEVER));
            DDP_TRY(measure(rank, (enum harness_lab_mode)mode, index));
            __atomic_store_n(&rank->slot->done, awaited.ready, __ATOMIC_RELEASE);
        }
    }
    return DDP_OK;
}

static ddp_status run(struct rank *rank, struct ddp_err *err)
{
    struct harness_lab_shared *shared = rank->shared;
    size_t bytes = shared->arena_bytes;

    DDP_TRY(harness_lab_engine_open(shared, rank->number, 0, &rank->engine, err));
    rank->input = rank->engine->ops->alloc(rank->engine, HARNESS_LAB_WORK_INPUT, bytes);
    rank->output = rank->engine->ops->alloc(rank->engine, HARNESS_LAB_WORK_OUTPUT, bytes);
    if (rank->input == NULL || rank->output == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for buffers of %zu bytes", bytes);
    }
    memcpy(rank->input, harness_lab_area(shared, rank->number, HARNESS_LAB_INPUT), bytes);
    DDP_TRY(measure_all(rank));
    rank->engine->ops->close(rank->engine);
    return DDP_OK;
}

int harness_lab_rank(struct harness_lab_shared *shared, uint32_t number)
{
    struct rank rank = {.shared = shared, .slot = &shared->slot[number], .number = number};
    struct ddp_err err = {""};
    ddp_status status =
        shared->request.is_tried ? harness_lab_try(shared, number, &err) : run(&rank, &err);

    if (status != DDP_OK) {
        rank.slot->status = status;
        (void)snprintf(rank.slot->text, sizeof rank.slot->text, "%.250s",
                       err.text[0] != '\0' ? err.text : ddp_status_text(status));
    }
    return status == DDP_OK ? 0 : 1;
}
