/* See the header. */
#include "tests/unit/nccl/nccl_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/nccl/nccl_device.h"

struct fake_message {
    struct fake_message *next;
    size_t size_bytes;
    unsigned char data[];
};

/* One collective on the device: members give their input, and take the result once all have. */
struct fake_slot {
    struct fake_slot *next;
    uint64_t number;
    uint32_t given;
    size_t size_bytes;
    unsigned char *data[FAKE_MEMBERS_MAX]; /* each member's input */
};

enum fake_kind { FAKE_ALL_REDUCE, FAKE_BROADCAST, FAKE_ALL_GATHER };

struct fake_call {
    enum fake_kind kind;
    const void *input;
    void *output;
    size_t count;
    int dtype, redop, root;
    uint64_t number;
};

static struct nccl_fake *current;

static size_t dtype_bytes(int dtype)
{
    for (int i = 0; i < DDP_DTYPE_COUNT; i++) {
        if (ddp_nccl_dtype_of((enum ddp_dtype)i) == dtype) {
            return ddp_dtype_size_bytes((enum ddp_dtype)i);
        }
    }
    return 0;
}

static void note(struct ddp_nccl_comm_handle *comm, const char *call, size_t count, int a)
{
    struct nccl_fake *fake = comm->fake;

    if (fake->log_count < FAKE_LOG_MAX) {
        (void)snprintf(fake->log[fake->log_count++], sizeof(fake->log[0]), "%u: %s %zu %d",
                       comm->member, call, count, a);
    }
}

static int fake_get_version(int *version)
{
    *version = 22809;
    return 0;
}

static int fake_get_unique_id(struct ddp_nccl_id *id)
{
    memset(id, 0x5a, sizeof(*id));
    return current->id_result;
}

static const char *fake_get_error_string(int result)
{
    static const char *const names[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};

    return result >= 0 && result < 8 ? names[result] : "unknown result code";
}

static const char *fake_get_last_error(struct ddp_nccl_comm_handle *comm)
{
    (void)comm;
    return current->last_error;
}

static int fake_init(struct ddp_nccl_comm_handle **out, int count, struct ddp_nccl_id id,
                     int member, struct ddp_nccl_config *config)
{
    struct ddp_nccl_comm_handle *comm;

    CT_CHECK_EQ_I64(id.internal[0], 0x5a);
    CT_CHECK_EQ_I64(id.internal[DDP_NCCL_ID_BYTES - 1], 0x5a);
    CT_CHECK_EQ_U64(config->size, sizeof(*config));
    CT_CHECK_EQ_U64(config->magic, DDP_NCCL_CONFIG_MAGIC);
    CT_CHECK_EQ_I64(config->blocking, 0);
    if (current->is_init_null) {
        *out = NULL;
        return current->init_result;
    }
    comm = &current->comms[current->comm_count++];
    memset(comm, 0, sizeof(*comm));
    comm->fake = current;
    comm->member = (uint32_t)member;
    comm->member_count = (uint32_t)count;
    comm->async = current->init_async;
    comm->after = current->init_after;
    comm->call_async = DDP_NCCL_IN_PROGRESS;
    *out = comm;
    return current->init_result;
}

static int fake_get_async_error(struct ddp_nccl_comm_handle *comm, int *result)
{
    comm->asked++;
    *result = atomic_load(&comm->async);
    if (*result != DDP_NCCL_IN_PROGRESS && comm->child_out != NULL) {
        *comm->child_out = comm->child;
        comm->child_out = NULL;
    }
    if (*result == DDP_NCCL_IN_PROGRESS) {
        atomic_store(&comm->async, atomic_load(&comm->after));
    }
    return 0;
}

static void hang(struct nccl_fake *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->hanging_count++;
    (void)pthread_cond_broadcast(&fake->changed);
    while (fake->is_hanging) {
        (void)pthread_cond_wait(&fake->changed, &fake->mutex);
    }
    fake->hanging_count--;
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->mutex);
}

void nccl_fake_hang(struct nccl_fake *fake, bool is_hanging)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->is_hanging = is_hanging;
    (void)pthread_cond_broadcast(&fake->changed);
    while (!is_hanging && fake->hanging_count > 0) {
        (void)pthread_cond_wait(&fake->changed, &fake->mutex);
    }
    (void)pthread_mutex_unlock(&fake->mutex);
}

void nccl_fake_await_hanging(struct nccl_fake *fake, uint32_t count)
{
    (void)pthread_mutex_lock(&fake->mutex);
    while (fake->hanging_count < count) {
        (void)pthread_cond_wait(&fake->changed, &fake->mutex);
    }
    (void)pthread_mutex_unlock(&fake->mutex);
}

static int fake_finalize(struct ddp_nccl_comm_handle *comm)
{
    atomic_fetch_add(&comm->finalizes, 1);
    atomic_store(&comm->async, comm->fake->finalize_async);
    return comm->fake->finalize_async;
}

static int fake_destroy(struct ddp_nccl_comm_handle *comm)
{
    atomic_fetch_add(&comm->destroys, 1);
    hang(comm->fake);
    return 0;
}

static int fake_abort(struct ddp_nccl_comm_handle *comm)
{
    atomic_fetch_add(&comm->aborts, 1);
    if (comm->fake->is_device_lost && atomic_load(&comm->is_revoked)) {
        nccl_fake_hang(comm->fake, true);
    }
    hang(comm->fake);
    return 0;
}

static int fake_revoke(struct ddp_nccl_comm_handle *comm, int flags)
{
    atomic_fetch_add(&comm->revokes, 1);
    if (flags != 0 || atomic_exchange(&comm->is_revoked, true)) {
        return DDP_NCCL_INVALID_ARGUMENT;
    }
    atomic_store(&comm->after, DDP_NCCL_SUCCESS);
    atomic_store(&comm->async, DDP_NCCL_IN_PROGRESS);
    hang(comm->fake);
    return DDP_NCCL_IN_PROGRESS;
}

static struct ddp_nccl_comm_handle *make_child(struct ddp_nccl_comm_handle *parent,
                                               const int *excluded, int excluded_count)
{
    struct ddp_nccl_comm_handle *child = &parent->fake->comms[parent->fake->comm_count++];

    memset(child, 0, sizeof(*child));
    child->fake = parent->fake;
    child->member = parent->member;
    child->member_count = parent->member_count - (uint32_t)excluded_count;
    child->call_async = DDP_NCCL_IN_PROGRESS;
    child->collectives = 1000; /* slots of its own */
    for (int i = 0; i < excluded_count; i++) {
        child->member -= (uint32_t)excluded[i] < parent->member ? 1 : 0;
    }
    return child;
}

/* As NCCL: the call says success, and the parent is in progress; the list may be sorted. */
static int fake_shrink(struct ddp_nccl_comm_handle *comm, int *excluded, int excluded_count,
                       struct ddp_nccl_comm_handle **out, struct ddp_nccl_config *config, int flags)
{
    atomic_fetch_add(&comm->shrinks, 1);
    hang(comm->fake);
    if (comm->fake->shrink_result != 0) {
        return comm->fake->shrink_result;
    }
    if (excluded_count < 1 || config != NULL || flags != DDP_NCCL_SHRINK_ABORT) {
        return DDP_NCCL_INVALID_ARGUMENT;
    }
    comm->child = make_child(comm, excluded, excluded_count);
    comm->child_out = out;
    memset(excluded, 0xff, (size_t)excluded_count * sizeof(*excluded));
    atomic_store(&comm->after, comm->fake->shrink_after);
    atomic_store(&comm->async, DDP_NCCL_IN_PROGRESS);
    return DDP_NCCL_SUCCESS;
}

static int fake_group_start(void)
{
    current->group_depth++;
    return 0;
}

/* What a call, or the end of a group, answers; the communicator is then in progress. */
static int start(struct ddp_nccl_comm_handle *comm)
{
    int result = comm->next_result;

    if (atomic_load(&comm->async) == DDP_NCCL_IN_PROGRESS || atomic_load(&comm->is_revoked)) {
        CT_FAIL("a call while the communicator is in progress or revoked");
        return DDP_NCCL_INVALID_ARGUMENT;
    }
    comm->next_result = 0;
    if (result != 0) {
        atomic_store(&comm->async, result);
        return result;
    }
    comm->collectives++;
    atomic_store(&comm->async, comm->call_async);
    return comm->call_async;
}

static int fake_group_end(void)
{
    CT_CHECK_EQ_U64(current->group_depth, 1);
    current->group_depth--;
    return DDP_NCCL_IN_PROGRESS;
}

static struct fake_slot *slot_of(struct nccl_fake *fake, uint64_t number)
{
    struct fake_slot *slot = fake->slots;

    while (slot != NULL && slot->number != number) {
        slot = slot->next;
    }
    if (slot == NULL) {
        slot = calloc(1, sizeof(*slot));
        DDP_ASSERT(slot != NULL);
        slot->number = number;
        slot->next = fake->slots;
        fake->slots = slot;
    }
    return slot;
}

static void combine(const struct fake_slot *slot, const struct fake_call *call, uint32_t count)
{
    static const enum ddp_redop redops[] = {DDP_REDOP_SUM, DDP_REDOP_PROD, DDP_REDOP_MAX,
                                            DDP_REDOP_MIN};
    struct ddp_device *cpu = NULL;

    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_system(), &cpu));
    memcpy(call->output, slot->data[0], slot->size_bytes);
    for (uint32_t i = 1; i < count; i++) {
        for (int dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
            if (ddp_nccl_dtype_of((enum ddp_dtype)dtype) == call->dtype) {
                CT_CHECK_OK(cpu->ops->reduce(cpu, NULL, call->output, slot->data[i], call->count,
                                             (enum ddp_dtype)dtype, redops[call->redop]));
            }
        }
    }
    cpu->ops->destroy(cpu);
}

static bool run_call(void *context, const void *arguments)
{
    struct ddp_nccl_comm_handle *comm = context;
    const struct fake_call *call = arguments;
    struct fake_slot *slot = slot_of(comm->fake, call->number);

    if (slot->data[comm->member] == NULL) {
        slot->size_bytes = call->count * dtype_bytes(call->dtype);
        slot->data[comm->member] = malloc(slot->size_bytes);
        DDP_ASSERT(slot->data[comm->member] != NULL);
        memcpy(slot->data[comm->member], call->input, slot->size_bytes);
        slot->given++;
    }
    if (slot->given < comm->member_count) {
        return false;
    }
    if (call->kind == FAKE_ALL_REDUCE) {
        combine(slot, call, comm->member_count);
    } else if (call->kind == FAKE_BROADCAST) {
        memcpy(call->output, slot->data[call->root], slot->size_bytes);
    } else {
        for (uint32_t i = 0; i < comm->member_count; i++) {
            memcpy((char *)call->output + i * slot->size_bytes, slot->data[i], slot->size_bytes);
        }
    }
    return true;
}

static int collective(struct ddp_nccl_comm_handle *comm, struct fake_call *call, void *stream,
                      const char *name, int noted)
{
    int result = start(comm);

    note(comm, name, call->count, noted);
    if (result == 0 || result == DDP_NCCL_IN_PROGRESS) {
        call->number = comm->collectives;
        nccl_device_enqueue(stream, run_call, comm, call, sizeof(*call));
    }
    return result;
}

static int fake_all_reduce(const void *input, void *output, size_t count, int dtype, int redop,
                           struct ddp_nccl_comm_handle *comm, void *stream)
{
    struct fake_call call = {FAKE_ALL_REDUCE, input, output, count, dtype, redop, 0, 0};

    return collective(comm, &call, stream, "all_reduce", redop);
}

static int fake_broadcast(const void *input, void *output, size_t count, int dtype, int root,
                          struct ddp_nccl_comm_handle *comm, void *stream)
{
    struct fake_call call = {FAKE_BROADCAST, input, output, count, dtype, 0, root, 0};

    return collective(comm, &call, stream, "broadcast", root);
}

static int fake_all_gather(const void *input, void *output, size_t count, int dtype,
                           struct ddp_nccl_comm_handle *comm, void *stream)
{
    struct fake_call call = {
        .kind = FAKE_ALL_GATHER, .input = input, .output = output, .count = count, .dtype = dtype};

    return collective(comm, &call, stream, "all_gather", dtype);
}

static bool run_send(void *context, const void *arguments)
{
    struct ddp_nccl_comm_handle *comm = context;
    const struct fake_call *call = arguments;
    size_t size_bytes = call->count * dtype_bytes(call->dtype);
    struct fake_message *message = malloc(sizeof(*message) + size_bytes);
    struct fake_message **link = &comm->sent[call->root];

    DDP_ASSERT(message != NULL);
    message->next = NULL;
    message->size_bytes = size_bytes;
    memcpy(message->data, call->input, size_bytes);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = message;
    return true;
}

static bool run_recv(void *context, const void *arguments)
{
    struct ddp_nccl_comm_handle *comm = context;
    const struct fake_call *call = arguments;
    struct fake_message **link = &comm->fake->comms[call->root].sent[comm->member];
    struct fake_message *message = *link;

    if (message == NULL) {
        return false;
    }
    CT_CHECK_EQ_U64(message->size_bytes, call->count * dtype_bytes(call->dtype));
    memcpy(call->output, message->data, message->size_bytes);
    *link = message->next;
    free(message);
    return true;
}

/* Only the first call of a group meets a communicator at rest. */
static int message(struct ddp_nccl_comm_handle *comm, const struct fake_call *call, void *stream,
                   const char *name, nccl_device_call *run)
{
    int result = 0;

    CT_CHECK_EQ_U64(comm->fake->group_depth, 1);
    if (atomic_load(&comm->async) != DDP_NCCL_IN_PROGRESS) {
        result = start(comm);
    }
    note(comm, name, call->count, call->root);
    if (result != 0 && result != DDP_NCCL_IN_PROGRESS) {
        return result;
    }
    nccl_device_enqueue(stream, run, comm, call, sizeof(*call));
    return 0;
}

static int fake_send(const void *data, size_t count, int dtype, int peer,
                     struct ddp_nccl_comm_handle *comm, void *stream)
{
    const struct fake_call call = {.input = data, .count = count, .dtype = dtype, .root = peer};

    return message(comm, &call, stream, "send", run_send);
}

static int fake_recv(void *data, size_t count, int dtype, int peer,
                     struct ddp_nccl_comm_handle *comm, void *stream)
{
    const struct fake_call call = {.output = data, .count = count, .dtype = dtype, .root = peer};

    return message(comm, &call, stream, "recv", run_recv);
}

void nccl_fake_open(struct nccl_fake *fake, bool has_revoke)
{
    memset(fake, 0, sizeof(*fake));
    (void)pthread_mutex_init(&fake->mutex, NULL);
    (void)pthread_cond_init(&fake->changed, NULL);
    fake->library.mem = ddp_mem_system();
    fake->library.version = 22809;
    fake->library.calls = (struct ddp_nccl_calls){.get_version = fake_get_version,
                                                  .get_unique_id = fake_get_unique_id,
                                                  .get_error_string = fake_get_error_string,
                                                  .get_last_error = fake_get_last_error,
                                                  .init = fake_init,
                                                  .get_async_error = fake_get_async_error,
                                                  .finalize = fake_finalize,
                                                  .destroy = fake_destroy,
                                                  .abort = fake_abort,
                                                  .group_start = fake_group_start,
                                                  .group_end = fake_group_end,
                                                  .all_reduce = fake_all_reduce,
                                                  .broadcast = fake_broadcast,
                                                  .all_gather = fake_all_gather,
                                                  .send = fake_send,
                                                  .recv = fake_recv,
                                                  .revoke = has_revoke ? fake_revoke : NULL,
                                                  .shrink = fake_shrink};
    fake->init_async = DDP_NCCL_IN_PROGRESS;
    fake->init_result = DDP_NCCL_IN_PROGRESS;
    fake->finalize_async = DDP_NCCL_IN_PROGRESS;
    fake->last_error = "";
    current = fake;
}

void nccl_fake_close(struct nccl_fake *fake)
{
    nccl_fake_hang(fake, false);
    for (uint32_t i = 0; i < fake->comm_count; i++) {
        for (uint32_t to = 0; to < FAKE_MEMBERS_MAX; to++) {
            while (fake->comms[i].sent[to] != NULL) {
                struct fake_message *gone = fake->comms[i].sent[to];

                fake->comms[i].sent[to] = gone->next;
                free(gone);
            }
        }
    }
    while (fake->slots != NULL) {
        struct fake_slot *gone = fake->slots;

        fake->slots = gone->next;
        for (uint32_t i = 0; i < FAKE_MEMBERS_MAX; i++) {
            free(gone->data[i]);
        }
        free(gone);
    }
    (void)pthread_mutex_destroy(&fake->mutex);
    (void)pthread_cond_destroy(&fake->changed);
    current = NULL;
}
