/* All members run the same number of collectives, whatever a member sees: before a result decides
 * what is done next, members compare what they saw. */
#include "harness/rank/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/device/transfer.h"
#include "harness/rank/probe_map.h"

/* Allocated, because a collective that does not end goes on using it after harness_probe_run
 * returned. */
struct prober {
    const struct harness_probe *probe;
    struct ddp_recorder *recorder; /* the rank's; env->recorder is NULL while probes run */
    struct ddp_fault_hook *faults; /* likewise */
    struct ddp_transfer transfer;
    struct ddp_coll_work work;
    uint64_t count; /* of probes so far */
    void *buffer;   /* what is reduced, in the device's memory */
    void *staging;  /* the same on the host */
    size_t size_bytes;
    bool is_coll_buffer;
    uint64_t digest;      /* of everything that came out for a request */
    ddp_status unwritten; /* first failed file; told at the end, when no member waits any more */
    struct harness_probe_map map;
};

static const char *round_name(enum harness_probe_round round)
{
    return round == HARNESS_PROBE_FIRST ? "first" : "last";
}

static uint64_t deadline_ns(const struct prober *prober)
{
    return ddp_clock_deadline_ns(prober->probe->env->clock, prober->probe->timeout_ns);
}

/* --- one collective --------------------------------------------------------------------------- */

static ddp_status poll_work(void *self)
{
    struct prober *prober = self;
    struct ddp_coll *coll = prober->probe->coll;

    return coll->ops->poll(coll, &prober->work);
}

static void hint_work(void *self, struct ddp_idle_hint *hint)
{
    struct ddp_coll *coll = ((struct prober *)self)->probe->coll;

    coll->ops->hint(coll, hint);
}

static ddp_status wait_work(struct prober *prober)
{
    const struct ddp_pollable pollable = {poll_work, hint_work, prober};

    return ddp_wait(prober->probe->env->idle, prober->probe->env->clock, &pollable,
                    deadline_ns(prober));
}

/* Point probe/sum: a fault may alter what this member got. */
static ddp_status pass_sum(const struct prober *prober)
{
    struct ddp_env *env = prober->probe->env;
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    enum ddp_fault_action action;

    place.data = prober->staging;
    place.elem_count = prober->map.elem_count;
    place.dtype = prober->map.dtype;
    env->recorder = prober->recorder; /* that a fault fired is recorded */
    action = ddp_fault_point(prober->faults, DDP_FAULT_POINT_PROBE_SUM, &place);
    env->recorder = NULL;
    return action == DDP_FAULT_FAIL ? DDP_E_INJECTED : DDP_OK;
}

/* Sum what is in staging over all members, back into staging. */
static ddp_status reduce(struct prober *prober)
{
    const struct harness_probe *probe = prober->probe;
    const struct harness_probe_map *map = &prober->map;

    DDP_TRY(ddp_transfer_to_device(&prober->transfer, prober->buffer, prober->staging,
                                   prober->size_bytes));
    memset(&prober->work, 0, sizeof prober->work);
    prober->work.args.kind = DDP_COLL_ALL_REDUCE;
    prober->work.args.redop = DDP_REDOP_SUM;
    prober->work.args.dtype = map->dtype;
    prober->work.args.role = DDP_ROLE_PROBE;
    prober->work.args.index = (uint32_t)(++prober->count & 0xffffffu);
    prober->work.args.input = prober->buffer;
    prober->work.args.output = prober->buffer;
    prober->work.args.elem_count = map->elem_count;
    /* The low 16 bits stand in a device's marks: 0 means no collective. */
    prober->work.seq = prober->count << 16;
    DDP_TRY(probe->coll->ops->post(probe->coll, &prober->work));
    DDP_TRY(wait_work(prober));
    ddp_recorder_wait_end(prober->recorder); /* a sign of life; no event */
    DDP_TRY(ddp_transfer_to_host(&prober->transfer, prober->staging, prober->buffer,
                                 prober->size_bytes));
    DDP_TRY(pass_sum(prober));
    prober->digest = ddp_hash_bytes(prober->staging, prober->size_bytes, prober->digest);
    return DDP_OK;
}

/* --- meeting ---------------------------------------------------------------------------------- */

static ddp_status barrier(const struct prober *prober, const char *name)
{
    const struct harness_probe *probe = prober->probe;
    ddp_status status;

    ddp_recorder_wait_begin(prober->recorder, DDP_WAIT_STORE, 0);
    status = ddp_store_barrier(probe->env, probe->store, name, probe->coll->member_count,
                               deadline_ns(prober));
    ddp_recorder_wait_end(prober->recorder);
    return status;
}

/* "probe/<name>/<round>/<request>/<stage>" */
static void make_name(const struct prober *prober, size_t request, const char *stage, char *out,
                      size_t size_bytes)
{
    (void)snprintf(out, size_bytes, "probe/%.64s/%s/%zu/%s", prober->probe->name,
                   round_name(prober->probe->round), request, stage);
}

/* Every member's digest: digests[member_count]. */
static ddp_status exchange_digests(const struct prober *prober, const char *name, uint64_t *digests)
{
    const struct harness_probe *probe = prober->probe;
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    char key[DDP_STORE_KEY_BYTES_MAX];
    ddp_status status;

    (void)snprintf(key, sizeof key, "%s/%" PRIu32, name, probe->coll->member);
    ddp_recorder_wait_begin(prober->recorder, DDP_WAIT_STORE, 0);
    status = ddp_store_set(probe->env, probe->store, key, &prober->digest, sizeof prober->digest,
                           deadline_ns(prober));
    for (uint32_t r = 0; status == DDP_OK && r < probe->coll->member_count; r++) {
        size_t size_bytes = 0;

        (void)snprintf(key, sizeof key, "%s/%" PRIu32, name, r);
        status =
            ddp_store_get(probe->env, probe->store, key, value, &size_bytes, deadline_ns(prober));
        if (status == DDP_OK && size_bytes != sizeof digests[r]) {
            status = DDP_E_CORRUPT;
        }
        if (status == DDP_OK) {
            memcpy(&digests[r], value, sizeof digests[r]);
        }
    }
    ddp_recorder_wait_end(prober->recorder);
    return status;
}

/* Members whose digest is not the most common one; if several are equally common, that of the
 * lowest member counts. */
static uint64_t find_dissenters(const uint64_t *digests, uint32_t count)
{
    uint64_t common = digests[0];
    uint32_t most = 0;
    uint64_t members = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t equal = 0;

        for (uint32_t j = 0; j < count; j++) {
            equal += digests[i] == digests[j];
        }
        if (equal > most) {
            most = equal;
            common = digests[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        members |= digests[i] != common ? UINT64_C(1) << i : 0;
    }
    return members;
}

/* Did all members see the same bits? If not, all members report exactly that as the result. */
static ddp_status agree(struct prober *prober, size_t request, const char *stage)
{
    uint64_t digests[HARNESS_PROBE_MEMBERS_MAX];
    uint64_t members;
    char name[128];

    make_name(prober, request, stage, name, sizeof name);
    DDP_TRY(exchange_digests(prober, name, digests));
    members = find_dissenters(digests, prober->map.member_count);
    if (members != 0) {
        prober->map.result = HARNESS_PROBE_MEMBERS;
        prober->map.members = members;
        (void)snprintf(prober->map.text, sizeof prober->map.text,
                       "members got different results of the same all-reduces");
    }
    /* The member that serves the store must not enter a collective while others still ask the
     * store. */
    return barrier(prober, name);
}

/* --- one request ------------------------------------------------------------------------------ */

static ddp_status open_buffers(struct prober *prober)
{
    const struct harness_probe *probe = prober->probe;
    struct ddp_device *device = probe->device;

    prober->size_bytes = prober->map.elem_count * ddp_dtype_size_bytes(prober->map.dtype);
    prober->buffer = probe->coll->ops->alloc(probe->coll, prober->size_bytes, DDP_SPACE_DEVICE);
    prober->is_coll_buffer = prober->buffer != NULL;
    if (!prober->is_coll_buffer) {
        DDP_TRY(device->ops->alloc(device, prober->size_bytes, DDP_SPACE_DEVICE, &prober->buffer));
    }
    return device->ops->alloc(device, prober->size_bytes, DDP_SPACE_HOST, &prober->staging);
}

static void close_buffers(struct prober *prober)
{
    struct ddp_coll *coll = prober->probe->coll;
    struct ddp_device *device = prober->probe->device;

    if (prober->buffer != NULL && prober->is_coll_buffer) {
        coll->ops->free(coll, DDP_SPACE_DEVICE, prober->buffer);
    } else if (prober->buffer != NULL) {
        device->ops->free(device, DDP_SPACE_DEVICE, prober->buffer);
    }
    if (prober->staging != NULL) {
        device->ops->free(device, DDP_SPACE_HOST, prober->staging);
    }
    prober->buffer = NULL;
    prober->staging = NULL;
}

static ddp_status measure_pairs(struct prober *prober)
{
    uint32_t member = prober->probe->coll->member;
    uint32_t pair = 0;

    for (uint32_t i = 0; i < prober->map.member_count; i++) {
        for (uint32_t j = i + 1; j < prober->map.member_count; j++) {
            harness_probe_map_fill(&prober->map, i, j, member, prober->staging);
            DDP_TRY(reduce(prober));
            DDP_TRY(harness_probe_map_take(&prober->map, pair++, prober->staging));
        }
    }
    return DDP_OK;
}

static ddp_status measure_widths(struct prober *prober)
{
    uint32_t member = prober->probe->coll->member;

    for (uint32_t w = 0; w < harness_probe_width_count(&prober->map); w++) {
        harness_probe_map_fill_width(&prober->map, w, member, prober->staging);
        DDP_TRY(reduce(prober));
        harness_probe_map_take_width(&prober->map, w, prober->staging);
    }
    return DDP_OK;
}

static ddp_status measure(struct prober *prober, size_t request)
{
    DDP_TRY(open_buffers(prober));
    prober->digest = 0;
    DDP_TRY(measure_pairs(prober));
    DDP_TRY(agree(prober, request, "pairs"));
    if (prober->map.result == HARNESS_PROBE_MEASURED) {
        DDP_TRY(harness_probe_map_solve(&prober->map));
    }
    if (prober->map.result != HARNESS_PROBE_MEASURED) { /* on all alike: they compared digests */
        return DDP_OK;
    }
    DDP_TRY(measure_widths(prober));
    DDP_TRY(agree(prober, request, "widths"));
    harness_probe_map_solve_width(&prober->map);
    return DDP_OK;
}

static void print_file(const struct prober *prober, struct ddp_text *out)
{
    const struct harness_probe_map *map = &prober->map;

    ddp_text_add(out, "ddprove tree 1\nkind %s\nredop %s\ndtype %s\nelem_count %zu\n",
                 ddp_coll_kind_name(DDP_COLL_ALL_REDUCE), ddp_redop_name(DDP_REDOP_SUM),
                 ddp_dtype_name(map->dtype), map->elem_count);
    ddp_text_add(out, "members %" PRIu32 "\nround %s\n", map->member_count,
                 round_name(prober->probe->round));
    harness_probe_map_print(map, out);
}

/* By member 0 alone. */
static ddp_status write_file(const struct prober *prober, struct ddp_err *err)
{
    const struct harness_probe *probe = prober->probe;
    struct ddp_files *files = probe->env->files;
    struct ddp_text path, text;
    ddp_status status = DDP_OK;

    if (probe->run_dir == NULL || probe->coll->member != 0) {
        return DDP_OK;
    }
    ddp_text_init(&path, probe->env->mem);
    ddp_text_init(&text, probe->env->mem);
    ddp_text_add(&path, "%s/trees/%s.n%zu.%s.%s.txt", probe->run_dir,
                 ddp_coll_kind_name(DDP_COLL_ALL_REDUCE), prober->map.elem_count,
                 ddp_dtype_name(prober->map.dtype), round_name(probe->round));
    print_file(prober, &text);
    if (path.is_failed || text.is_failed) {
        status = DDP_E_NOMEM;
    }
    if (status == DDP_OK) {
        status = ddp_files_write_atomic(files, ddp_text_str(&path), ddp_text_str(&text),
                                        text.size_bytes, err);
    }
    ddp_text_fini(&text);
    ddp_text_fini(&path);
    return status;
}

/* More members than can be measured with this type, or a type that cannot be measured: that is a
 * result, not an error. */
static void set_out_of_reach(struct prober *prober, const struct harness_probe_request *request)
{
    uint32_t limit = harness_probe_member_limit(request->dtype);
    struct harness_probe_map *map = &prober->map;

    *map = (struct harness_probe_map){.mem = prober->probe->env->mem,
                                      .member_count = prober->probe->coll->member_count,
                                      .elem_count = request->elem_count,
                                      .dtype = request->dtype,
                                      .result = HARNESS_PROBE_UNKNOWN};
    (void)snprintf(map->text, sizeof map->text,
                   limit == 0 ? "%s is not measured" : "%s is measured up to %" PRIu32 " members",
                   ddp_dtype_name(request->dtype), limit);
}

static ddp_status run_request(struct prober *prober, size_t index, struct ddp_err *err)
{
    const struct harness_probe *probe = prober->probe;
    const struct harness_probe_request *request = &probe->requests[index];
    uint32_t members = probe->coll->member_count;
    ddp_status status;

    if (members > harness_probe_member_limit(request->dtype)) {
        set_out_of_reach(prober, request);
    } else {
        DDP_TRY(harness_probe_map_init(&prober->map, probe->env->mem, members, request->dtype,
                                       request->elem_count));
        DDP_TRY(measure(prober, index));
    }
    status = write_file(prober, err);
    prober->unwritten = prober->unwritten == DDP_OK ? status : prober->unwritten;
    close_buffers(prober);
    harness_probe_map_fini(&prober->map);
    return DDP_OK;
}

static bool is_repeat(const struct harness_probe *probe, size_t index)
{
    const struct harness_probe_request *request = &probe->requests[index];

    for (size_t i = 0; i < index; i++) {
        if (probe->requests[i].elem_count == request->elem_count &&
            probe->requests[i].dtype == request->dtype) {
            return true;
        }
    }
    return request->elem_count == 0;
}

static ddp_status run_all(struct prober *prober, struct ddp_err *err)
{
    const struct harness_probe *probe = prober->probe;
    char name[128];

    DDP_TRY(ddp_transfer_init(&prober->transfer, probe->device, probe->env->idle, probe->env->clock,
                              probe->timeout_ns));
    make_name(prober, 0, "begin", name, sizeof name);
    DDP_TRY(barrier(prober, name));
    for (size_t i = 0; i < probe->request_count; i++) {
        if (!is_repeat(probe, i)) {
            DDP_TRY(run_request(prober, i, err));
        }
    }
    /* No barrier here: the last agreement came after the last collective. */
    return prober->unwritten;
}

/* The cause, by the rules of ddp_group: a revocation comes before an error that followed it, and a
 * revocation for a death names the dead rank. Members that did not notice the failure learn of it
 * by the revocation that this sends. */
static ddp_status blame(struct prober *prober, ddp_status status)
{
    const struct harness_probe *probe = prober->probe;
    struct ddp_coll *coll = probe->coll;
    struct ddp_revocation revocation = {probe->env->rank, status, 0, 0};
    int32_t dead = -1;

    if (coll->ops->is_revoked(coll, &revocation)) {
        status = revocation.status < DDP_OK ? revocation.status : status;
    } else if (status == DDP_E_PEER_DIED) {
        dead = coll->ops->dead_rank(coll);
        dead = dead < 0 ? probe->store->dead_rank : dead;
        revocation.detail = dead < 0 ? 0 : (uint64_t)dead;
        ddp_recorder_event(prober->recorder, DDP_EVENT_PEER_DIED, (uint64_t)(int64_t)dead, 0, 0, 0,
                           0);
    }
    ddp_recorder_event(prober->recorder, DDP_EVENT_REVOKE, revocation.rank,
                       (uint64_t)revocation.status, revocation.step, revocation.detail, 0);
    ddp_recorder_revoked(prober->recorder, revocation.rank, revocation.status);
    if (revocation.rank == probe->env->rank) {
        coll->ops->revoke(coll, &revocation);
    }
    return status;
}

/* Revoke the group, then wait for the collective that may be under way. */
static ddp_status give_up(struct prober *prober, ddp_status status)
{
    status = blame(prober, status);
    if (prober->work.status == DDP_PENDING) {
        (void)wait_work(prober);
    }
    return status;
}

static void describe_failure(const struct harness_probe *probe, ddp_status status,
                             struct ddp_err *err)
{
    if (err != NULL && err->text[0] == '\0') {
        (void)ddp_err_set(err, status, "%s", ddp_status_text(status));
    }
    (void)ddp_err_wrap(err, status, "measuring reduction trees (%s)", round_name(probe->round));
}

/* Hide fault points and recorder from everything below, and show them again. */
struct hidden {
    struct ddp_env *env;
    struct ddp_fault_hook *faults;
    struct ddp_recorder *recorder;
};

static struct hidden hide(struct ddp_env *env)
{
    const struct hidden before = {env, env->faults, env->recorder};

    env->faults = NULL;
    env->recorder = NULL;
    return before;
}

static void unhide(const struct hidden *before)
{
    before->env->faults = before->faults;
    before->env->recorder = before->recorder;
}

ddp_status harness_probe_run(const struct harness_probe *probe, struct ddp_err *err)
{
    struct ddp_mem *mem = probe->env->mem;
    struct hidden own, coll;
    struct prober *prober;
    ddp_status status;

    if (probe->coll->member_count < 2 || probe->request_count == 0) {
        return DDP_OK;
    }
    prober = ddp_mem_array(mem, 1, sizeof *prober);
    if (prober == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to measure reduction trees");
    }
    prober->probe = probe;
    prober->recorder = probe->env->recorder;
    prober->faults = probe->env->faults;
    own = hide(probe->env);
    coll = hide(probe->coll->env);
    status = run_all(prober, err);
    if (status != DDP_OK) {
        status = give_up(prober, status);
        describe_failure(probe, status, err);
    }
    /* A collective that is still under way uses the buffers: they are not freed, but go with the
     * rank's memory. */
    if (prober->work.status != DDP_PENDING) {
        close_buffers(prober);
        harness_probe_map_fini(&prober->map);
        ddp_transfer_fini(&prober->transfer);
        ddp_mem_free(mem, prober);
    }
    unhide(&coll);
    unhide(&own);
    return status;
}
