/* Purpose: keep what ranks show, rank by rank and group by group.
 * Idea: rings are read first and pages after them, so a wait that a page shows is for a call that
 * was read. A page whose counters did not move between two reads is as it was at one moment. */
#include "harness/watch/watch.h"

#include <string.h>

enum { READS_MAX = 64 }; /* attempts at a record that is being written */

ddp_status harness_watch_init(struct harness_watch *watch, struct ddp_mem *mem,
                              const struct guest_arena *arena)
{
    *watch = (struct harness_watch){
        .mem = mem, .arena = arena, .world_size = (uint32_t)arena->world_size};
    watch->ranks = ddp_mem_array(mem, watch->world_size, sizeof *watch->ranks);
    return watch->ranks == NULL ? DDP_E_NOMEM : DDP_OK;
}

void harness_watch_fini(struct harness_watch *watch)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        for (uint32_t r = 0; r < watch->world_size; r++) {
            ddp_mem_free(watch->mem, watch->groups[g].members[r].calls);
        }
        ddp_mem_free(watch->mem, watch->groups[g].members);
    }
    ddp_mem_free(watch->mem, watch->groups);
    ddp_mem_free(watch->mem, watch->ranks);
    memset(watch, 0, sizeof *watch);
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

const struct harness_watch_call *harness_watch_call_at(const struct harness_watch_member *member,
                                                       uint64_t seq)
{
    if (seq < member->kept_seq || seq - member->kept_seq >= member->call_count) {
        return NULL;
    }
    return &member->calls[seq - member->kept_seq];
}

/* --- communicators
 * ------------------------------------------------------------------------------------------------
 */

static struct harness_watch_group *add_group(struct harness_watch *watch, uint64_t key,
                                             uint64_t size)
{
    struct harness_watch_group *groups = ddp_mem_grow(watch->mem, watch->groups, watch->group_count,
                                                      &watch->group_capacity, sizeof *groups);
    struct harness_watch_group *group;

    if (groups == NULL) {
        watch->is_failed = true;
        return NULL;
    }
    watch->groups = groups;
    group = &groups[watch->group_count];
    *group = (struct harness_watch_group){.key = key, .size = size};
    group->members = ddp_mem_array(watch->mem, watch->world_size, sizeof *group->members);
    if (group->members == NULL) {
        watch->is_failed = true;
        return NULL;
    }
    watch->group_count++;
    return group;
}

/* The n-th communicator of a key on one rank is the n-th of that key on every other one. */
static struct harness_watch_group *find_group(struct harness_watch *watch, uint64_t key,
                                              uint64_t size, uint32_t rank)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        if (watch->groups[g].key == key && !watch->groups[g].members[rank].is_there) {
            return &watch->groups[g];
        }
    }
    return add_group(watch, key, size);
}

/* The name is only on the page, which may be a moment ahead of the ring. */
static void copy_name(const struct harness_watch *watch, uint32_t rank, uint32_t handle,
                      struct harness_watch_group *group)
{
    const struct guest_comm *comm =
        &guest_arena_page(watch->arena, rank)->comms[(handle - 1) % GUEST_COMMS_MAX];
    uint64_t words[GUEST_NAME_BYTES / 8];

    for (unsigned i = 0; i < GUEST_NAME_BYTES / 8; i++) {
        words[i] = load(&comm->name[i]);
    }
    if (load(&comm->handle) == handle) {
        memcpy(group->name, words, sizeof words);
        group->name[sizeof group->name - 1] = '\0';
    }
}

static void take_comm(struct harness_watch *watch, uint32_t rank,
                      const uint64_t arg[GUEST_ARG_COUNT])
{
    const uint32_t handle = (uint32_t)arg[0];
    struct harness_watch_rank *self = &watch->ranks[rank];
    struct harness_watch_group *group = find_group(watch, arg[1], arg[3], rank);
    const size_t place = (handle - 1) % GUEST_COMMS_MAX;

    if (group == NULL) {
        return;
    }
    group->is_pair = arg[4] == GUEST_COMM_PAIR;
    self->has_device = self->has_device || arg[4] != GUEST_COMM_HOST;
    if (group->name[0] == '\0') {
        copy_name(watch, rank, handle, group);
    }
    group->members[rank] = (struct harness_watch_member){.is_there = true,
                                                         .is_of_device = arg[4] != GUEST_COMM_HOST,
                                                         .handle = handle,
                                                         .rank = (uint32_t)arg[2],
                                                         .kept_seq = 1};
    self->comms[place].handle = handle;
    self->comms[place].group = (size_t)(group - watch->groups);
}

/* The member that a handle of this rank is; NULL: the rank never made it. */
static struct harness_watch_member *member_of(struct harness_watch *watch, uint32_t rank,
                                              uint64_t handle, size_t *out_group)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    const size_t place = (size_t)((handle - 1) % GUEST_COMMS_MAX);

    if (handle == 0 || self->comms[place].handle != handle) {
        return NULL;
    }
    *out_group = self->comms[place].group;
    return &watch->groups[*out_group].members[rank];
}

/* --- calls
 * --------------------------------------------------------------------------------------------------------
 */

static void take_post(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    size_t group = 0;
    struct harness_watch_member *member = member_of(watch, rank, entry->arg[0], &group);
    struct harness_watch_call *calls;

    /* Two threads may post in one communicator at once; what they posted first may be written
     * second. */
    if (member == NULL || entry->arg[1] < member->kept_seq ||
        entry->arg[1] - member->kept_seq > member->call_count + GUEST_THREADS_MAX) {
        watch->ranks[rank].lost_count++;
        return;
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
        (struct harness_watch_call){.op = entry->arg[2],
                                    .elem_count = entry->arg[3],
                                    .bucket = entry->arg[4],
                                    .time_ns = entry->time_ns,
                                    .step = (uint32_t)entry->place,
                                    .micro = (uint16_t)(entry->place >> 32),
                                    .phase = (uint8_t)(entry->place >> 48)};
    member->posted = entry->arg[1] > member->posted ? entry->arg[1] : member->posted;
}

static void take_done(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    size_t group = 0;
    struct harness_watch_member *member = member_of(watch, rank, entry->arg[0], &group);

    if (member != NULL && harness_watch_call_at(member, entry->arg[1]) != NULL) {
        member->calls[entry->arg[1] - member->kept_seq].is_done = true;
    }
}

static void take_launch(struct harness_watch *watch, uint32_t rank, const uint64_t *arg)
{
    size_t group = 0;
    struct harness_watch_member *member = member_of(watch, rank, arg[0], &group);
    const bool has_failed = arg[3] == GUEST_LAUNCH_FAILED;

    if (member == NULL) {
        return;
    }
    for (size_t i = 0; i < member->call_count; i++) {
        struct harness_watch_call *call = &member->calls[member->call_count - 1 - i];
        const uint64_t seq = member->kept_seq + member->call_count - 1 - i;

        if (seq < arg[1]) {
            break; /* the newest come first, so the rest is older */
        }
        if (seq <= arg[2]) {
            call->is_launched = !has_failed;
            call->lane = has_failed || arg[3] > GUEST_LANES_MAX ? 0 : (uint32_t)arg[3];
        }
    }
    watch->ranks[rank].has_broken = watch->ranks[rank].has_broken || has_failed;
}

static void take_free(struct harness_watch *watch, uint32_t rank, const uint64_t *arg)
{
    size_t group = 0;
    struct harness_watch_member *member = member_of(watch, rank, arg[0], &group);

    if (member != NULL) {
        member->is_freed = true;
        watch->ranks[rank].has_broken = watch->ranks[rank].has_broken || arg[2] != 0;
    }
}

static void take_entry(struct harness_watch *watch, uint32_t rank, const struct guest_entry *entry)
{
    switch ((enum guest_event)(entry->place >> 56)) {
    case GUEST_EVENT_COMM:
        take_comm(watch, rank, entry->arg);
        break;
    case GUEST_EVENT_COMM_FREE:
        take_free(watch, rank, entry->arg);
        break;
    case GUEST_EVENT_POST:
        take_post(watch, rank, entry);
        break;
    case GUEST_EVENT_DONE:
        take_done(watch, rank, entry);
        break;
    case GUEST_EVENT_LAUNCH:
        take_launch(watch, rank, entry->arg);
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
    out->time_ns = load(&entry->time_ns);
    out->place = load(&entry->place);
    out->thread = load(&entry->thread);
    for (unsigned i = 0; i < GUEST_ARG_COUNT; i++) {
        out->arg[i] = load(&entry->arg[i]);
    }
    return load(&entry->index) == index;
}

/* An entry that is not whole yet is read next time; if its writer is gone, or has been overtaken,
 * it is lost. */
static void read_ring(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_rank *self = &watch->ranks[rank];
    const struct guest_page *page = guest_arena_page(watch->arena, rank);
    const struct guest_entry *ring = guest_arena_ring(watch->arena, rank);
    const uint64_t count = __atomic_load_n(&page->entry_count, __ATOMIC_ACQUIRE);
    const uint64_t capacity = watch->arena->ring_entry_count;
    const bool is_gone =
        self->state == HARNESS_WATCH_EXITED || self->state == HARNESS_WATCH_SIGNALED;

    while (self->read_count < count) {
        struct guest_entry entry;

        if (count - self->read_count > capacity) {
            self->lost_count += count - capacity - self->read_count;
            self->read_count = count - capacity;
        }
        if (read_entry(ring, capacity - 1, self->read_count + 1, &entry)) {
            take_entry(watch, rank, &entry);
        } else if (is_gone ||
                   load(&ring[self->read_count & (capacity - 1)].index) > self->read_count + 1) {
            self->lost_count++;
        } else {
            return;
        }
        self->read_count++;
        watch->change_ns = watch->now_ns;
    }
}

/* What a thread waits for; false: nothing, or it is just changing. */
static bool read_wait(struct harness_watch *watch, uint32_t rank, const struct guest_thread *thread,
                      struct harness_watch_wait *out)
{
    for (int i = 0; i < READS_MAX; i++) {
        const uint64_t change = __atomic_load_n(&thread->change, __ATOMIC_ACQUIRE);
        const uint64_t handle = load(&thread->comm);

        out->seq = load(&thread->seq);
        out->first = out->seq;
        out->lane = 0;
        out->enter_ns = load(&thread->enter_ns);
        if (change % 2 == 0 && load(&thread->change) == change) {
            return member_of(watch, rank, handle, &out->group) != NULL;
        }
    }
    return false;
}

/* The device may write while this is read: then what is read is of one moment or the next. */
static void read_lane(struct harness_watch *watch, uint32_t rank, uint32_t place)
{
    const struct guest_lane *lane = &guest_arena_page(watch->arena, rank)->lanes[place];
    struct harness_watch_lane *kept = &watch->ranks[rank].lanes[place];
    struct harness_watch_lane now = {.handle = load(&lane->comm)};

    now.stream = load(&lane->stream);
    now.begun = load(&lane->begun);
    now.ended = load(&lane->ended);
    if (load(&lane->comm) != now.handle) {
        return; /* it is changing hands */
    }
    if (now.handle != kept->handle || now.begun != kept->begun || now.ended != kept->ended) {
        now.since_ns = watch->now_ns;
        watch->change_ns = watch->now_ns;
        *kept = now;
    }
}

/* What a stream waits for; false: nothing. */
static bool lane_wait(struct harness_watch *watch, uint32_t rank, uint32_t place,
                      struct harness_watch_wait *out)
{
    const struct harness_watch_lane *lane = &watch->ranks[rank].lanes[place];

    *out = (struct harness_watch_wait){.seq = lane->begun,
                                       .enter_ns = lane->since_ns,
                                       .first = lane->ended + 1,
                                       .lane = place + 1};
    return lane->begun > lane->ended && member_of(watch, rank, lane->handle, &out->group) != NULL;
}

static void read_page(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_rank *self = &watch->ranks[rank];
    const struct guest_page *page = guest_arena_page(watch->arena, rank);
    struct harness_watch_wait before[HARNESS_WATCH_WAITS_MAX];
    const uint32_t count_before = self->wait_count;

    memcpy(before, self->waits, count_before * sizeof before[0]);
    self->pid = __atomic_load_n(&page->pid, __ATOMIC_ACQUIRE);
    self->is_attached = self->is_attached || self->pid != 0;
    self->is_detached = load(&page->is_ended) != 0;
    self->world_size = load(&page->world_size);
    self->step = load(&page->step);
    self->micro = load(&page->micro);
    self->phase = load(&page->phase);
    self->alive_ns = load(&page->alive_ns);
    self->lost_comm_count = load(&page->lost_comms);
    self->thread_count = 0;
    self->wait_count = 0;
    for (uint32_t t = 0; t < GUEST_THREADS_MAX; t++) {
        self->thread_count += load(&page->threads[t].tid) != 0;
        if (read_wait(watch, rank, &page->threads[t], &self->waits[self->wait_count])) {
            self->wait_count++;
        }
    }
    self->thread_wait_count = self->wait_count;
    for (uint32_t i = 0; self->has_device && i < GUEST_LANES_MAX; i++) {
        read_lane(watch, rank, i);
        self->wait_count += lane_wait(watch, rank, i, &self->waits[self->wait_count]);
    }
    if (self->wait_count != count_before ||
        memcmp(before, self->waits, self->wait_count * sizeof self->waits[0]) != 0) {
        watch->change_ns = watch->now_ns;
    }
}

void harness_watch_read(struct harness_watch *watch, uint64_t now_ns)
{
    watch->now_ns = now_ns;
    for (uint32_t r = 0; r < watch->world_size; r++) {
        read_ring(watch, r);
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        read_page(watch, r);
    }
}
