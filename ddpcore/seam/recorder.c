/* The writer and the readers of pages and rings. No fences: fields are stored with release and
 * loaded with acquire order, so whoever sees a new field also sees that `change` went odd (or that
 * the entry's index was withdrawn) before it. On x86-64 these are plain moves. The clock is read in
 * event, phase, wait_begin, wait_end and end only; step, posted, done, peer and message are cheap.
 * last_param follows grad.ready events, posted_waited coll.waited; every other page field has its
 * own function. */
#include "ddpcore/seam/recorder.h"

#include <string.h>

#include "ddpcore/base/hash.h"

enum { RECORDER_ALIGN_BYTES = 4096, PAGE_READ_ATTEMPTS = 64 };
/* struct ddp_page and the progress words have a memory page each, so that a device maps the words
 * alone. */
enum {
    PROGRESS_OFFSET_BYTES = RECORDER_ALIGN_BYTES,
    RING_OFFSET_BYTES = PROGRESS_OFFSET_BYTES + DDP_PROGRESS_SIZE_BYTES
};

_Static_assert(sizeof(struct ddp_event_entry) == 64, "an entry is one cache line");
_Static_assert(sizeof(struct ddp_page) % sizeof(uint64_t) == 0, "the page is 64-bit fields");
_Static_assert(sizeof(struct ddp_page) <= PROGRESS_OFFSET_BYTES, "the page is one page");
_Static_assert(DDP_EVENT_COUNT <= 256 && DDP_PHASE_COUNT <= 256, "both are bytes in an entry");

size_t ddp_recorder_size_bytes(uint64_t ring_entry_count)
{
    size_t size_bytes =
        RING_OFFSET_BYTES + (size_t)ring_entry_count * sizeof(struct ddp_event_entry);

    return (size_bytes + RECORDER_ALIGN_BYTES - 1) / RECORDER_ALIGN_BYTES * RECORDER_ALIGN_BYTES;
}

const struct ddp_event_entry *ddp_recorder_ring(const void *storage)
{
    return (const struct ddp_event_entry *)(const void *)((const char *)storage +
                                                          RING_OFFSET_BYTES);
}

const struct ddp_progress *ddp_recorder_progress_of(const void *storage)
{
    return (const struct ddp_progress *)(const void *)((const char *)storage +
                                                       PROGRESS_OFFSET_BYTES);
}

struct ddp_progress *ddp_recorder_progress(struct ddp_recorder *recorder)
{
    return recorder == NULL ? NULL : recorder->progress;
}

static inline void put(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

/* The writer's own fields: nobody else stores them. */
static inline uint64_t own(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static inline void page_begin(struct ddp_page *page)
{
    DDP_ASSERT((own(&page->change) & 1) == 0); /* one writer, and no change within a change */
    __atomic_store_n(&page->change, own(&page->change) + 1, __ATOMIC_RELAXED);
}

static inline void page_end(struct ddp_page *page)
{
    DDP_ASSERT((own(&page->change) & 1) != 0);
    put(&page->change, own(&page->change) + 1);
}

static inline uint64_t ring_slot(uint64_t index, uint64_t ring_entry_count)
{
    uint64_t position = index - 1;

    DDP_ASSERT(index > 0 && ring_entry_count > 0);
    /* A division costs more than the rest of an event. */
    if ((ring_entry_count & (ring_entry_count - 1)) == 0) {
        return position & (ring_entry_count - 1);
    }
    return position % ring_entry_count;
}

static inline uint64_t now_ns(struct ddp_recorder *recorder)
{
    return recorder->clock->now_ns(recorder->clock);
}

/* Append an entry; the caller publishes event_count. */
static inline uint64_t ring_append(struct ddp_recorder *recorder, uint64_t time_ns,
                                   enum ddp_event event, const uint64_t args[DDP_EVENT_ARG_COUNT])
{
    uint64_t index = own(&recorder->page->event_count) + 1;
    struct ddp_event_entry *entry = &recorder->ring[ring_slot(index, recorder->ring_entry_count)];

    DDP_ASSERT((unsigned)event < DDP_EVENT_COUNT && recorder->phase < DDP_PHASE_COUNT);
    __atomic_store_n(&entry->index, 0, __ATOMIC_RELAXED);
    put(&entry->time_ns, time_ns);
    __atomic_store_n(&entry->step, recorder->step, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->micro, recorder->micro, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->phase, recorder->phase, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->event, (uint8_t)event, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < DDP_EVENT_ARG_COUNT; i++) {
        put(&entry->arg[i], args[i]);
    }
    put(&entry->index, index);
    return index;
}

void ddp_recorder_init(struct ddp_recorder *recorder, void *storage, uint64_t ring_entry_count,
                       struct ddp_clock *clock, uint32_t rank, uint32_t world_size, uint64_t pid)
{
    struct ddp_page *page = (struct ddp_page *)storage;
    uint64_t start_ns = clock->now_ns(clock);

    DDP_ASSERT(ring_entry_count > 0 && rank < world_size);
    DDP_ASSERT((uintptr_t)storage % sizeof(uint64_t) == 0); /* or stores would not be atomic */
    DDP_ASSERT(page->magic == 0 && page->change == 0 && page->event_count == 0);
    *recorder = (struct ddp_recorder){
        .page = page,
        .progress = (struct ddp_progress *)(void *)((char *)storage + PROGRESS_OFFSET_BYTES),
        .ring = (struct ddp_event_entry *)(void *)((char *)storage + RING_OFFSET_BYTES),
        .ring_entry_count = ring_entry_count,
        .clock = clock,
        .phase = DDP_PHASE_SPAWN};
    page_begin(page);
    put(&page->pid, pid);
    put(&page->rank, rank);
    put(&page->world_size, world_size);
    put(&page->phase, DDP_PHASE_SPAWN);
    put(&page->phase_enter_ns, start_ns);
    put(&page->heartbeat_ns, start_ns);
    put(&page->magic, DDP_PAGE_MAGIC);
    page_end(page);
}

void ddp_recorder_event(struct ddp_recorder *recorder, enum ddp_event event, uint64_t a0,
                        uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
    const uint64_t args[DDP_EVENT_ARG_COUNT] = {a0, a1, a2, a3, a4};
    struct ddp_page *page;
    uint64_t time_ns;
    uint64_t index;

    if (recorder == NULL) {
        return;
    }
    page = recorder->page;
    time_ns = now_ns(recorder);
    index = ring_append(recorder, time_ns, event, args);
    page_begin(page);
    put(&page->heartbeat_ns, time_ns);
    put(&page->event_count, index);
    if (event == DDP_EVENT_GRAD_READY) {
        put(&page->last_param, a0 + 1);
    }
    recorder->seq_waited = event == DDP_EVENT_COLL_WAITED ? a0 : recorder->seq_waited;
    page_end(page);
}

/* The time, and how long the rank has had no CPU by then. If it loses the CPU between the two, it
 * looks again: else that time would count as its own here and be missing there. */
static uint64_t now_and_starved_ns(struct ddp_recorder *recorder, uint64_t *out_starved_ns)
{
    enum { LOOKS = 16 };
    uint64_t time_ns = now_ns(recorder);
    uint64_t before_ns = 0;

    *out_starved_ns = recorder->starved_ns != NULL ? recorder->starved_ns() : 0;
    for (int i = 0; recorder->starved_ns != NULL && i < LOOKS && *out_starved_ns != before_ns;
         i++) {
        before_ns = *out_starved_ns;
        time_ns = now_ns(recorder);
        *out_starved_ns = recorder->starved_ns();
    }
    return time_ns;
}

void ddp_recorder_phase(struct ddp_recorder *recorder, enum ddp_phase phase)
{
    uint64_t args[DDP_EVENT_ARG_COUNT] = {(uint64_t)phase, 0, 0, 0, 0};
    struct ddp_page *page;
    uint64_t time_ns;
    uint64_t index;

    if (recorder == NULL) {
        return;
    }
    page = recorder->page;
    DDP_ASSERT((unsigned)phase < DDP_PHASE_COUNT);
    time_ns = now_and_starved_ns(recorder, &args[2]);
    args[1] = recorder->waited_ns;
    args[2] -= recorder->starved_waits_ns;
    recorder->phase = (uint8_t)phase;
    index = ring_append(recorder, time_ns, DDP_EVENT_PHASE, args);
    page_begin(page);
    put(&page->phase, (uint64_t)phase);
    put(&page->phase_enter_ns, time_ns);
    put(&page->heartbeat_ns, time_ns);
    put(&page->event_count, index);
    page_end(page);
}

void ddp_recorder_step(struct ddp_recorder *recorder, uint32_t step, uint32_t micro)
{
    if (recorder == NULL) {
        return;
    }
    DDP_ASSERT(micro <= UINT16_MAX);
    recorder->step = step;
    recorder->micro = (uint16_t)micro;
    page_begin(recorder->page);
    put(&recorder->page->step, step);
    put(&recorder->page->micro, micro);
    page_end(recorder->page);
}

void ddp_recorder_collective_posted(struct ddp_recorder *recorder, uint64_t comm, uint64_t seq,
                                    uint64_t packed_op, uint64_t elem_count)
{
    if (recorder == NULL) {
        return;
    }
    DDP_ASSERT(seq > 0);
    page_begin(recorder->page);
    put(&recorder->page->posted_waited,
        recorder->seq_waited != 0 && recorder->seq_waited == own(&recorder->page->seq_posted));
    put(&recorder->page->comm, comm);
    put(&recorder->page->seq_posted, seq);
    put(&recorder->page->posted_op, packed_op);
    put(&recorder->page->posted_comm, comm);
    put(&recorder->page->posted_count, elem_count);
    put(&recorder->page->posted_step, recorder->step);
    put(&recorder->page->posted_phase, recorder->phase);
    page_end(recorder->page);
}

void ddp_recorder_call(struct ddp_recorder *recorder, uint64_t seq)
{
    if (recorder == NULL) {
        return;
    }
    page_begin(recorder->page);
    put(&recorder->page->call_seq, seq);
    page_end(recorder->page);
}

void ddp_recorder_collective_done(struct ddp_recorder *recorder, uint64_t seq)
{
    if (recorder == NULL) {
        return;
    }
    DDP_ASSERT(seq > 0 && seq <= own(&recorder->page->seq_posted));
    page_begin(recorder->page);
    /* Collectives end in order; a rank that looks for an end late learns of it late. */
    if (seq > own(&recorder->page->seq_done)) {
        put(&recorder->page->seq_done, seq);
    }
    page_end(recorder->page);
}

void ddp_recorder_wait_begin(struct ddp_recorder *recorder, enum ddp_wait_kind kind, uint64_t seq)
{
    uint64_t time_ns;

    if (recorder == NULL) {
        return;
    }
    DDP_ASSERT(kind != DDP_WAIT_NONE);
    DDP_ASSERT(own(&recorder->page->wait_kind) == DDP_WAIT_NONE); /* waits do not nest */
    time_ns = now_and_starved_ns(recorder, &recorder->starved_before_ns);
    page_begin(recorder->page);
    put(&recorder->page->wait_kind, (uint64_t)kind);
    put(&recorder->page->wait_seq, seq);
    put(&recorder->page->wait_peer, 0);
    put(&recorder->page->wait_enter_ns, time_ns);
    put(&recorder->page->heartbeat_ns, time_ns);
    page_end(recorder->page);
}

bool ddp_recorder_is_waiting(const struct ddp_recorder *recorder)
{
    return recorder != NULL && own(&recorder->page->wait_kind) != DDP_WAIT_NONE;
}

static void show_wait_kind(struct ddp_recorder *recorder, enum ddp_wait_kind kind)
{
    page_begin(recorder->page);
    put(&recorder->page->wait_kind, (uint64_t)kind);
    page_end(recorder->page);
}

enum ddp_wait_kind ddp_recorder_wait_suspend(struct ddp_recorder *recorder)
{
    const enum ddp_wait_kind kind =
        recorder != NULL ? (enum ddp_wait_kind)own(&recorder->page->wait_kind) : DDP_WAIT_NONE;

    if (kind != DDP_WAIT_NONE) {
        show_wait_kind(recorder, DDP_WAIT_NONE);
    }
    return kind;
}

void ddp_recorder_wait_resume(struct ddp_recorder *recorder, enum ddp_wait_kind kind)
{
    if (kind != DDP_WAIT_NONE) {
        DDP_ASSERT(own(&recorder->page->wait_kind) == DDP_WAIT_NONE);
        show_wait_kind(recorder, kind);
    }
}

void ddp_recorder_plugin(struct ddp_recorder *recorder, bool is_inside)
{
    if (recorder != NULL) {
        put(&recorder->page->plugin_ns, is_inside ? ddp_clock_now_ns(recorder->clock) : 0);
    }
}

void ddp_recorder_wait_peer(struct ddp_recorder *recorder, int32_t peer)
{
    uint64_t shown = (uint64_t)((int64_t)peer + 1);

    DDP_ASSERT(peer >= -1);
    if (recorder == NULL || own(&recorder->page->wait_peer) == shown) {
        return;
    }
    page_begin(recorder->page);
    put(&recorder->page->wait_peer, shown);
    page_end(recorder->page);
}

void ddp_recorder_wait_end(struct ddp_recorder *recorder)
{
    uint64_t starved_ns;
    uint64_t time_ns;

    if (recorder == NULL) {
        return;
    }
    time_ns = now_and_starved_ns(recorder, &starved_ns);
    if (own(&recorder->page->wait_kind) != DDP_WAIT_NONE) {
        recorder->waited_ns += time_ns - own(&recorder->page->wait_enter_ns);
        recorder->starved_waits_ns += starved_ns - recorder->starved_before_ns;
    }
    page_begin(recorder->page);
    put(&recorder->page->wait_kind, DDP_WAIT_NONE);
    put(&recorder->page->wait_seq, 0);
    put(&recorder->page->wait_peer, 0);
    put(&recorder->page->wait_enter_ns, 0);
    put(&recorder->page->heartbeat_ns, time_ns);
    page_end(recorder->page);
}

void ddp_recorder_message(struct ddp_recorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    page_begin(recorder->page);
    put(&recorder->page->message_count, own(&recorder->page->message_count) + 1);
    page_end(recorder->page);
}

void ddp_recorder_revoked(struct ddp_recorder *recorder, uint32_t rank, ddp_status status)
{
    if (recorder == NULL) {
        return;
    }
    DDP_ASSERT(status < 0);
    page_begin(recorder->page);
    put(&recorder->page->revoke_rank, (uint64_t)rank + 1);
    put(&recorder->page->revoke_status, (uint32_t)status);
    page_end(recorder->page);
}

void ddp_recorder_regroup(struct ddp_recorder *recorder)
{
    struct ddp_page *page = recorder == NULL ? NULL : recorder->page;

    if (page == NULL) {
        return;
    }
    recorder->seq_waited = 0;
    page_begin(page);
    put(&page->comm, 0);
    put(&page->seq_posted, 0);
    put(&page->seq_done, 0);
    put(&page->posted_op, 0);
    put(&page->posted_count, 0);
    put(&page->posted_step, 0);
    put(&page->posted_phase, 0);
    put(&page->posted_waited, 0);
    put(&page->call_seq, 0);
    put(&page->revoke_rank, 0);
    put(&page->revoke_status, 0);
    page_end(page);
}

void ddp_recorder_point(struct ddp_recorder *recorder, uint32_t point)
{
    if (recorder == NULL) {
        return;
    }
    page_begin(recorder->page);
    put(&recorder->page->last_point, (uint64_t)point + 1);
    page_end(recorder->page);
}

uint64_t ddp_recorder_hash(const struct ddp_recorder *recorder, const void *data, size_t size_bytes,
                           uint64_t salt)
{
    uint64_t hash = ddp_hash_tensor(data, size_bytes, salt, NULL);

    if (recorder != NULL && recorder->witness != NULL) {
        recorder->witness->see(recorder->witness->context, hash, data, size_bytes);
    }
    return hash;
}

void ddp_recorder_end(struct ddp_recorder *recorder, ddp_status status, uint64_t steps_done)
{
    uint64_t args[DDP_EVENT_ARG_COUNT] = {(uint64_t)(int64_t)status, steps_done, 0, 0, 0};
    uint64_t time_ns;
    uint64_t index;

    if (recorder == NULL) {
        return;
    }
    args[2] = own(&recorder->page->message_count);
    DDP_ASSERT(own(&recorder->page->end_status) == 0); /* a rank ends once */
    time_ns = now_ns(recorder);
    index = ring_append(recorder, time_ns, DDP_EVENT_RANK_END, args);
    page_begin(recorder->page);
    put(&recorder->page->heartbeat_ns, time_ns);
    put(&recorder->page->event_count, index);
    put(&recorder->page->end_status, 1 + (uint64_t)(uint32_t)status);
    page_end(recorder->page);
}

bool ddp_page_read(const struct ddp_page *page, struct ddp_page *out)
{
    const uint64_t *from = (const uint64_t *)(const void *)page;
    uint64_t *to = (uint64_t *)(void *)out;

    for (int attempt = 0; attempt < PAGE_READ_ATTEMPTS; attempt++) {
        uint64_t before = __atomic_load_n(&page->change, __ATOMIC_ACQUIRE);

        if ((before & 1) != 0) {
            continue;
        }
        for (size_t i = 0; i < sizeof(*page) / sizeof(*from); i++) {
            to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
        }
        if (__atomic_load_n(&page->change, __ATOMIC_RELAXED) == before) {
            return out->magic == DDP_PAGE_MAGIC;
        }
    }
    return false;
}

/* An entry without an index: untouched (all zero), or caught while being written. */
static bool is_untouched(const struct ddp_event_entry *copy)
{
    static const struct ddp_event_entry zero;

    return memcmp(copy, &zero, sizeof(zero)) == 0;
}

ddp_status ddp_ring_read(const struct ddp_event_entry *ring, uint64_t ring_entry_count,
                         uint64_t index, struct ddp_event_entry *out)
{
    const struct ddp_event_entry *entry;

    if (index == 0) {
        return DDP_E_NOT_FOUND;
    }
    entry = &ring[ring_slot(index, ring_entry_count)];
    out->index = __atomic_load_n(&entry->index, __ATOMIC_ACQUIRE);
    out->time_ns = __atomic_load_n(&entry->time_ns, __ATOMIC_ACQUIRE);
    out->step = __atomic_load_n(&entry->step, __ATOMIC_ACQUIRE);
    out->micro = __atomic_load_n(&entry->micro, __ATOMIC_ACQUIRE);
    out->phase = __atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE);
    out->event = __atomic_load_n(&entry->event, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < DDP_EVENT_ARG_COUNT; i++) {
        out->arg[i] = __atomic_load_n(&entry->arg[i], __ATOMIC_ACQUIRE);
    }
    if (__atomic_load_n(&entry->index, __ATOMIC_RELAXED) != out->index) {
        return DDP_E_CORRUPT;
    }
    if (out->index == index) {
        return DDP_OK;
    }
    if (out->index == 0) {
        return is_untouched(out) ? DDP_E_NOT_FOUND : DDP_E_CORRUPT;
    }
    /* The slot holds an entry of an earlier round of the ring, or already one of a later round. */
    return out->index < index ? DDP_E_NOT_FOUND : DDP_E_CORRUPT;
}
