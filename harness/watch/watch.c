/* Purpose: keep what ranks show, rank by rank and group by group.
 * Idea: rings are read first and pages after them. What a rank posts in between is read next time,
 * so that it lacks a call that others wait in shows only once it has ended, or nothing has changed
 * for a while. A page whose counters did not move between two reads is as it was at one moment. */
#include "harness/watch/watch.h"

#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"
#include "harness/watch/read.h"

enum { READS_MAX = 64 }; /* attempts at a record that is being written */

ddp_status harness_watch_init(struct harness_watch *watch, struct ddp_mem *mem,
                              const struct guest_arena *arena)
{
    *watch = (struct harness_watch){
        .mem = mem, .arena = arena, .world_size = (uint32_t)arena->world_size};
    watch->ranks = ddp_mem_array(mem, watch->world_size, sizeof *watch->ranks);
    watch->waiters = ddp_mem_array(mem, watch->world_size, sizeof *watch->waiters);
    return watch->ranks == NULL || watch->waiters == NULL ? DDP_E_NOMEM : DDP_OK;
}

void harness_watch_fini(struct harness_watch *watch)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        for (uint32_t r = 0; r < watch->world_size; r++) {
            ddp_mem_free(watch->mem, watch->groups[g].members[r].calls);
            ddp_mem_free(watch->mem, watch->groups[g].members[r].near);
        }
        ddp_mem_free(watch->mem, watch->groups[g].members);
    }
    ddp_mem_free(watch->mem, watch->groups);
    harness_watch_free_told(watch);
    ddp_mem_free(watch->mem, watch->ranks);
    ddp_mem_free(watch->mem, watch->waiters);
    ddp_mem_free(watch->mem, watch->strayed.is);
    memset(watch, 0, sizeof *watch);
}

const struct harness_watch_call *harness_watch_call_at(const struct harness_watch_member *member,
                                                       uint64_t seq)
{
    const struct harness_watch_call *call;

    if (seq < member->kept_seq || seq - member->kept_seq >= member->call_count) {
        return NULL;
    }
    call = &member->calls[seq - member->kept_seq];
    return call->time_ns != 0 ? call : NULL;
}

/* --- calls
 * --------------------------------------------------------------------------------------------------------
 */

/* What a program of another version may say. */
static uint64_t known_op(uint64_t op)
{
    const uint32_t kind = guest_op_kind(op);
    const uint32_t dtype = guest_op_dtype(op);
    const uint32_t redop = guest_op_redop(op);

    return guest_op_pack(kind < DDPROVE_GUEST_KIND_COUNT ? kind : DDPROVE_GUEST_OTHER,
                         dtype < DDPROVE_GUEST_DTYPE_COUNT ? dtype : DDPROVE_GUEST_BYTES,
                         redop < DDPROVE_GUEST_REDOP_COUNT ? redop : DDPROVE_GUEST_USER,
                         guest_op_root(op));
}

static void take_post(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    size_t group = 0;
    struct harness_watch_member *member =
        harness_watch_member_of(watch, rank, entry->arg[0], &group);
    struct harness_watch_call *calls;

    if (member == NULL || entry->arg[1] < member->kept_seq) {
        watch->ranks[rank].lost_count++;
        return;
    }
    /* Two threads may post in one communicator at once; what they posted first may be written
     * second. More than one for each thread are missing because they were overwritten: then what
     * is known begins anew. */
    if (entry->arg[1] - member->kept_seq > member->call_count + GUEST_THREADS_MAX) {
        member->kept_seq = entry->arg[1];
        member->call_count = 0;
    }
    while (entry->arg[1] - member->kept_seq >= member->call_count) {
        calls = ddp_mem_grow(watch->mem, member->calls, member->call_count, &member->call_capacity,
                             sizeof *calls);
        if (calls == NULL) {
            watch->is_failed = true;
            return;
        }
        member->calls = calls;
        memset(&member->calls[member->call_count++], 0, sizeof *calls);
    }
    member->calls[entry->arg[1] - member->kept_seq] =
        (struct harness_watch_call){.op = known_op(entry->arg[2]),
                                    .elem_count = entry->arg[3],
                                    .bucket = (uint32_t)entry->arg[4],
                                    .model = (uint32_t)(entry->arg[4] >> 32),
                                    .list = harness_watch_bucket_list(watch, rank, entry->arg[4]),
                                    .time_ns = entry->time_ns,
                                    .order = entry->index,
                                    .step = (uint32_t)entry->place,
                                    .is_before_steps = watch->ranks[rank].step_count == 0,
                                    .may_overflow = (entry->arg[2] & GUEST_OP_MAY_OVERFLOW) != 0,
                                    .micro = (uint16_t)(entry->place >> 32),
                                    .phase = (uint8_t)(entry->place >> 48),
                                    .thread = (uint8_t)entry->thread,
                                    .messages = (uint32_t)(entry->thread >> 32)};
    member->posted = entry->arg[1] > member->posted ? entry->arg[1] : member->posted;
}

bool harness_watch_needs_all(const struct harness_watch_call *call)
{
    switch ((enum ddprove_guest_kind)guest_op_kind(call->op)) {
    case DDPROVE_GUEST_BARRIER:
        return true;
    case DDPROVE_GUEST_ALL_REDUCE:
    case DDPROVE_GUEST_ALL_GATHER:
    case DDPROVE_GUEST_REDUCE_SCATTER:
    case DDPROVE_GUEST_ALL_TO_ALL:
        return call->elem_count > 0;
    default:
        return false;
    }
}

static void take_done(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    size_t group = 0;
    struct harness_watch_member *member =
        harness_watch_member_of(watch, rank, entry->arg[0], &group);

    const struct harness_watch_call *call =
        member != NULL ? harness_watch_call_at(member, entry->arg[1]) : NULL;

    if (call != NULL) {
        member->calls[entry->arg[1] - member->kept_seq].is_done = true;
        if (harness_watch_needs_all(call) && entry->arg[1] > watch->groups[group].done_seq) {
            watch->groups[group].done_seq = entry->arg[1];
        }
    }
}

/* The call that an entry is about; NULL: it is not known any more. */
static struct harness_watch_call *call_of(const struct harness_watch_member *member, uint64_t seq)
{
    return member != NULL && harness_watch_call_at(member, seq) != NULL
               ? &member->calls[seq - member->kept_seq]
               : NULL;
}

/* What the data of a call come to; they are reported between its post and its end. */
static void take_value(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    size_t group = 0;
    struct harness_watch_call *call =
        call_of(harness_watch_member_of(watch, rank, entry->arg[0], &group), entry->arg[1]);

    if (call == NULL) {
        return;
    }
    switch ((enum guest_event)(entry->place >> 56)) {
    case GUEST_EVENT_VALUE_IN:
        call->in = (struct harness_watch_value){true, entry->arg[2], entry->arg[3], entry->arg[4]};
        break;
    case GUEST_EVENT_VALUE_OUT:
        call->out = (struct harness_watch_value){true, entry->arg[2], 0, entry->arg[4]};
        memcpy(&call->out_sample, &entry->arg[3], sizeof call->out_sample);
        break;
    default:
        call->has_changed = true;
        break;
    }
}

/* The call's post comes before it in the ring, so a number's upper half is the last post's. */
static struct harness_watch_call *call_of_half(struct harness_watch *watch, uint32_t rank,
                                               uint64_t half)
{
    size_t group = 0;
    struct harness_watch_member *member =
        harness_watch_member_of(watch, rank, (uint32_t)half, &group);

    return member == NULL
               ? NULL
               : call_of(member, member->posted - (uint32_t)(member->posted - (half >> 32)));
}

static void take_name(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    struct harness_watch_call *call = call_of_half(watch, rank, entry->arg[0]);

    if (call != NULL) {
        memcpy(call->name, &entry->arg[1], GUEST_NAME_BYTES);
        call->name[GUEST_NAME_BYTES - 1] = '\0';
    }
}

static void take_sample(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    struct harness_watch_call *call = call_of_half(watch, rank, entry->arg[0]);

    if (call != NULL) {
        _Static_assert(sizeof call->in_sample == 4 * sizeof entry->arg[0], "four doubles");
        memcpy(&call->in_sample, &entry->arg[1], sizeof call->in_sample);
        call->has_sample = true;
    }
}

static void take_entry(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    switch ((enum guest_event)(entry->place >> 56)) {
    case GUEST_EVENT_COMM:
        harness_watch_take_comm(watch, rank, entry->arg);
        break;
    case GUEST_EVENT_COMM_FREE:
        harness_watch_take_free(watch, rank, entry->arg);
        break;
    case GUEST_EVENT_NEAR:
        harness_watch_take_near(watch, rank, entry->arg);
        break;
    case GUEST_EVENT_POST:
        take_post(watch, rank, entry);
        break;
    case GUEST_EVENT_DONE:
        take_done(watch, rank, entry);
        break;
    case GUEST_EVENT_LAUNCH:
        harness_watch_take_launch(watch, rank, entry->arg);
        break;
    case GUEST_EVENT_STEP:
        if ((uint32_t)entry->place >= watch->ranks[rank].step_count) {
            watch->ranks[rank].step_count = (uint64_t)(uint32_t)entry->place + 1;
        }
        break;
    case GUEST_EVENT_FAULT:
        if (entry->arg[0] < GUEST_FAULTS_MAX && entry->arg[4] != GUEST_UNABLE_NOT) {
            watch->ranks[rank].unable[entry->arg[0]] =
                entry->arg[4] < GUEST_UNABLE_COUNT ? (uint8_t)entry->arg[4] : GUEST_UNABLE_SETTLED;
        } else if (entry->arg[0] < GUEST_FAULTS_MAX) {
            watch->ranks[rank].fired[entry->arg[0]]++;
            watch->ranks[rank].fired_ns = entry->time_ns;
        }
        break;
    case GUEST_EVENT_VALUE_IN:
    case GUEST_EVENT_VALUE_OUT:
    case GUEST_EVENT_VALUE_CHANGED:
        take_value(watch, rank, entry);
        break;
    case GUEST_EVENT_SAMPLE_IN:
        take_sample(watch, rank, entry);
        break;
    case GUEST_EVENT_CALL_NAME:
        take_name(watch, rank, entry);
        break;
    case GUEST_EVENT_NAME:
        harness_watch_take_told_name(watch, rank, entry);
        break;
    case GUEST_EVENT_BUCKET:
        harness_watch_take_bucket(watch, rank, entry);
        break;
    case GUEST_EVENT_UNUSED:
    case GUEST_EVENT_KEYS:
    case GUEST_EVENT_TENSOR:
    case GUEST_EVENT_TENSOR_NAME:
    case GUEST_EVENT_OPTION:
    case GUEST_EVENT_OPTION_MORE:
    case GUEST_EVENT_STATE:
    case GUEST_EVENT_UPDATED:
    case GUEST_EVENT_EPOCH:
    case GUEST_EVENT_EPOCH_END:
    case GUEST_EVENT_SAMPLES:
    case GUEST_EVENT_BATCH:
        if (watch->on_report != NULL) {
            watch->on_report(watch->report_context, rank, entry);
        }
        break;
    default: /* the page says it too */
        break;
    }
}

/* --- the arena
 * ----------------------------------------------------------------------------------------------------
 */

/* Entry number index of a ring. False: it is being written, was overwritten, or was never finished.
 */
static bool read_entry(const struct guest_entry *ring, uint64_t mask, uint64_t index,
                       struct guest_entry *out)
{
    const struct guest_entry *entry = &ring[(index - 1) & mask];

    if (__atomic_load_n(&entry->index, __ATOMIC_ACQUIRE) != index) {
        return false;
    }
    out->index = index;
    out->time_ns = harness_watch_load(&entry->time_ns);
    out->place = harness_watch_load(&entry->place);
    out->thread = harness_watch_load(&entry->thread);
    for (unsigned i = 0; i < GUEST_ARG_COUNT; i++) {
        out->arg[i] = harness_watch_load(&entry->arg[i]);
    }
    return harness_watch_load(&entry->index) == index;
}

/* An entry that is not whole yet is read next time; if its writer has been overtaken, it is lost.
 * If the process is gone, nothing is: its thread ended before it did what it was about to report.
 */
static void read_ring(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_rank *self = &watch->ranks[rank];
    const struct guest_page *page = guest_arena_page(watch->arena, rank);
    const struct guest_entry *ring = guest_arena_ring(watch->arena, rank);
    const uint64_t count = __atomic_load_n(&page->entry_count, __ATOMIC_ACQUIRE);
    const uint64_t capacity = watch->arena->ring_entry_count;
    const bool is_gone =
        self->state == HARNESS_WATCH_EXITED || self->state == HARNESS_WATCH_SIGNALED;

    self->is_behind = false;
    while (self->read_count < count) {
        struct guest_entry entry;

        if (count - self->read_count > capacity) {
            self->lost_count += count - capacity - self->read_count;
            self->read_count = count - capacity;
            harness_watch_forget_told(watch, rank);
        }
        if (read_entry(ring, capacity - 1, self->read_count + 1, &entry)) {
            take_entry(watch, rank, &entry);
        } else if (harness_watch_load(&ring[self->read_count & (capacity - 1)].index) >
                   self->read_count + 1) {
            self->lost_count++;
            harness_watch_forget_told(watch, rank);
        } else if (!is_gone) {
            self->is_behind = true;
            return;
        }
        self->read_count++;
        watch->change_ns = watch->now_ns;
    }
}

/* What a thread waits for; false: nothing. One that lost its CPU while it wrote that down is taken
 * to wait still for what it was last seen to wait for. */
static bool read_wait(struct harness_watch *watch, uint32_t rank, uint32_t t,
                      struct harness_watch_wait *out, bool *out_is_torn)
{
    const struct guest_thread *thread = &guest_arena_page(watch->arena, rank)->threads[t];
    struct harness_watch_wait *kept = &watch->ranks[rank].kept_waits[t];

    *out_is_torn = false;
    for (int i = 0; i < READS_MAX; i++) {
        const uint64_t change = __atomic_load_n(&thread->change, __ATOMIC_ACQUIRE);
        const uint64_t handle = harness_watch_load(&thread->comm);

        out->seq = harness_watch_load(&thread->seq);
        out->first = out->seq;
        out->lane = 0;
        out->waiter = (uint64_t)rank + 1;
        out->enter_ns = harness_watch_load(&thread->enter_ns);
        out->is_polled = harness_watch_load(&thread->polled_ns) != 0;
        if (change % 2 == 0 && harness_watch_load(&thread->change) == change) {
            const struct harness_watch_member *member =
                harness_watch_member_of(watch, rank, handle, &out->group);

            /* Posted since the ring was read: what was posted before it is not known either. */
            *kept =
                member != NULL && (guest_wait_is_of_ranks(out->seq) || out->seq <= member->posted)
                    ? *out
                    : (struct harness_watch_wait){.seq = 0};
            return kept->seq != 0;
        }
    }
    *out = *kept;
    *out_is_torn = true;
    return kept->seq != 0;
}

/* The thread has asked just now, or had when its process ended: who asks no more does something
 * else. */
static bool is_still_asking(const struct harness_watch *watch, uint32_t rank,
                            const struct guest_thread *thread)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    const bool is_gone =
        self->state == HARNESS_WATCH_EXITED || self->state == HARNESS_WATCH_SIGNALED;

    return (is_gone ? self->since_ns : watch->now_ns) <
           harness_watch_load(&thread->polled_ns) + HARNESS_WATCH_POLL_NS;
}

/* What threads wait for. If one does neither, the rank may be in code of its own, whatever others
 * ask for. */
static void read_waits(struct harness_watch *watch, uint32_t rank, const struct guest_page *page)
{
    struct harness_watch_rank *self = &watch->ranks[rank];
    struct harness_watch_wait polled[GUEST_THREADS_MAX];
    uint32_t polled_count = 0;

    self->wait_count = 0;
    for (uint32_t t = 0; t < GUEST_THREADS_MAX; t++) {
        struct harness_watch_wait wait;
        bool is_torn;

        if (!read_wait(watch, rank, t, &wait, &is_torn)) {
            continue;
        }
        if (wait.is_polled == 0) {
            self->waits[self->wait_count++] = wait;
        } else if (is_torn || is_still_asking(watch, rank, &page->threads[t])) {
            polled[polled_count++] = wait;
        }
    }
    self->thread_wait_count = self->wait_count;
    for (uint32_t i = 0;
         i < polled_count && self->thread_wait_count + polled_count >= self->thread_count; i++) {
        self->waits[self->wait_count++] = polled[i];
    }
}

/* Posts were lost: how many calls there are is on the page too. */
static void recount(struct harness_watch *watch, uint32_t rank)
{
    const struct guest_page *page = guest_arena_page(watch->arena, rank);

    for (uint32_t place = 0; place < GUEST_COMMS_MAX; place++) {
        const uint64_t handle = watch->ranks[rank].comms[place].handle;
        const uint64_t posted = harness_watch_load(&page->comms[place].posted);
        size_t group = 0;
        struct harness_watch_member *member = harness_watch_member_of(watch, rank, handle, &group);

        if (member != NULL && harness_watch_load(&page->comms[place].handle) == handle &&
            posted > member->posted) {
            member->posted = posted;
        }
    }
}

static void read_page(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_rank *self = &watch->ranks[rank];
    const struct guest_page *page = guest_arena_page(watch->arena, rank);
    struct harness_watch_wait before[HARNESS_WATCH_WAITS_MAX];
    const uint32_t count_before = self->wait_count;

    self->pid = __atomic_load_n(&page->pid, __ATOMIC_ACQUIRE);
    self->is_attached = self->is_attached || self->pid != 0;
    if (!self->is_attached) {
        return; /* nobody has written the page */
    }
    memcpy(before, self->waits, count_before * sizeof before[0]);
    self->world_size = harness_watch_load(&page->world_size);
    self->step = harness_watch_load(&page->step);
    self->micro = harness_watch_load(&page->micro);
    self->phase = harness_watch_load(&page->phase);
    self->alive_ns = harness_watch_load(&page->alive_ns);
    self->lost_comms = harness_watch_load(&page->lost_comms);
    self->is_one_thread = harness_watch_load(&page->is_one_thread) != 0;
    self->thread_count = 0;
    if (self->lost_count > 0) {
        recount(watch, rank);
    }
    for (uint32_t t = 0; t < GUEST_THREADS_MAX; t++) {
        self->thread_count += harness_watch_load(&page->threads[t].tid) != 0;
        self->messages[t] = (uint32_t)harness_watch_load(&page->threads[t].messages);
    }
    read_waits(watch, rank, page);
    harness_watch_read_lanes(watch, rank);
    if (self->wait_count != count_before ||
        memcmp(before, self->waits, self->wait_count * sizeof self->waits[0]) != 0) {
        watch->change_ns = watch->now_ns;
    }
}

void harness_watch_read(struct harness_watch *watch, uint64_t now_ns)
{
    watch->now_ns = now_ns;
    for (size_t g = 0; g < watch->group_count; g++) {
        watch->groups[g].done_before = watch->groups[g].done_seq;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        /* First, so that all that it posted before is read. */
        watch->ranks[r].is_detached =
            harness_watch_load(&guest_arena_page(watch->arena, r)->is_ended) != 0;
        read_ring(watch, r);
    }
    watch->waiter_count = 0;
    for (uint32_t r = 0; r < watch->world_size; r++) {
        read_page(watch, r);
        if (watch->ranks[r].wait_count > 0) {
            watch->waiters[watch->waiter_count++] = r;
        }
    }
}
