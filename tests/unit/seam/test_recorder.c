/* The recorder: what is shown where, and that readers never take a mixture for a state. */
#include <pthread.h>
#include <string.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/seam/recorder.h"
#include "tests/ct.h"

enum { RING_ENTRIES = 8 };

struct fixture {
    struct ddp_clock_virtual clock;
    struct ddp_recorder recorder;
    void *storage;
    struct ddp_page page;
};

static void fixture_init(struct fixture *fixture)
{
    ddp_clock_virtual_init(&fixture->clock, 100);
    fixture->storage = ddp_mem_array(ddp_mem_system(), ddp_recorder_size_bytes(RING_ENTRIES), 1);
    DDP_ASSERT(fixture->storage != NULL);
    ddp_recorder_init(&fixture->recorder, fixture->storage, RING_ENTRIES, &fixture->clock.base, 2,
                      4, 77);
}

static void fixture_fini(struct fixture *fixture)
{
    ddp_mem_free(ddp_mem_system(), fixture->storage);
}

static void fixture_read(struct fixture *fixture)
{
    CT_CHECK(ddp_page_read((const struct ddp_page *)fixture->storage, &fixture->page));
}

/* Without a recorder every call does nothing. */
CT_TEST(recorder, null_is_silent)
{
    ddp_recorder_event(NULL, DDP_EVENT_LOSS, 1, 2, 3, 4, 5);
    ddp_recorder_phase(NULL, DDP_PHASE_DATA);
    ddp_recorder_step(NULL, 1, 2);
    ddp_recorder_collective_posted(NULL, 1, 2, 3, 4);
    ddp_recorder_collective_done(NULL, 1);
    ddp_recorder_wait_begin(NULL, DDP_WAIT_STORE, 1);
    ddp_recorder_wait_peer(NULL, 1);
    ddp_recorder_wait_end(NULL);
    ddp_recorder_message(NULL);
    ddp_recorder_revoked(NULL, 1, DDP_E_MISMATCH);
    ddp_recorder_point(NULL, 1);
    ddp_recorder_end(NULL, DDP_OK, 1);
}

/* Page, progress words and ring lie apart, so that a device can map the words' page alone. */
CT_TEST(recorder, parts_do_not_share_a_page)
{
    struct fixture f;
    const char *storage;
    const char *progress;

    fixture_init(&f);
    storage = f.storage;
    progress = (const char *)ddp_recorder_progress_of(storage);
    CT_CHECK((const char *)ddp_recorder_progress(&f.recorder) == progress);
    CT_CHECK(ddp_recorder_progress(NULL) == NULL);
    CT_CHECK_EQ_U64((uint64_t)(progress - storage) % DDP_PROGRESS_SIZE_BYTES, 0);
    CT_CHECK(progress - storage >= (ptrdiff_t)sizeof(struct ddp_page));
    CT_CHECK((const char *)ddp_recorder_ring(storage) - progress >= DDP_PROGRESS_SIZE_BYTES);
    for (uint64_t count = 1; count < 200; count += 7) {
        const char *end = (const char *)(ddp_recorder_ring(storage) + count);

        CT_CHECK(end <= storage + ddp_recorder_size_bytes(count));
        CT_CHECK_EQ_U64(ddp_recorder_size_bytes(count) % 4096, 0);
    }
    ddp_recorder_event(&f.recorder, DDP_EVENT_LOSS, 1, 1, 1, 1, 1);
    for (size_t i = 0; i < DDP_PROGRESS_SIZE_BYTES; i++) {
        CT_CHECK(progress[i] == 0);
    }
    fixture_fini(&f);
}

static uint64_t starved_now_ns;

static uint64_t starved(void)
{
    return starved_now_ns;
}

/* A phase's event says how long the rank has waited, and how long it had no CPU outside its waits.
 */
CT_TEST(recorder, phases_tell_waits_and_starving_apart)
{
    struct fixture f;
    struct ddp_event_entry entry;

    fixture_init(&f);
    f.recorder.starved_ns = starved;
    starved_now_ns = 5;
    ddp_clock_virtual_advance_to(&f.clock, 200);
    ddp_recorder_wait_begin(&f.recorder, DDP_WAIT_COLLECTIVE, 1);
    starved_now_ns = 45;
    ddp_clock_virtual_advance_to(&f.clock, 270);
    ddp_recorder_wait_end(&f.recorder);
    starved_now_ns = 52;
    ddp_recorder_phase(&f.recorder, DDP_PHASE_FORWARD);
    fixture_read(&f);
    CT_REQUIRE_OK(
        ddp_ring_read(f.recorder.ring, f.recorder.ring_entry_count, f.page.event_count, &entry));
    CT_CHECK(entry.event == DDP_EVENT_PHASE && entry.arg[0] == DDP_PHASE_FORWARD);
    CT_CHECK_EQ_U64(entry.arg[1], 70);
    CT_CHECK_EQ_U64(entry.arg[2], 5 + 7);
    fixture_fini(&f);
}

/* The page follows the calls, field by field. */
CT_TEST(recorder, page_shows_the_present)
{
    struct fixture f;

    fixture_init(&f);
    fixture_read(&f);
    CT_CHECK(f.page.rank == 2 && f.page.world_size == 4 && f.page.pid == 77);
    CT_CHECK(f.page.phase == DDP_PHASE_SPAWN && f.page.heartbeat_ns == 100);
    ddp_clock_virtual_advance_to(&f.clock, 200);
    ddp_recorder_phase(&f.recorder, DDP_PHASE_BACKWARD);
    ddp_recorder_step(&f.recorder, 5, 1);
    ddp_recorder_event(&f.recorder, DDP_EVENT_GRAD_READY, 3, 0, 0, 0, 0);
    ddp_recorder_collective_posted(&f.recorder, 1, 9, 0xabc, 1000);
    ddp_recorder_collective_done(&f.recorder, 8);
    ddp_clock_virtual_advance_to(&f.clock, 300);
    ddp_recorder_wait_begin(&f.recorder, DDP_WAIT_COLLECTIVE, 9);
    ddp_recorder_wait_peer(&f.recorder, 0);
    ddp_recorder_message(&f.recorder);
    ddp_recorder_revoked(&f.recorder, 3, DDP_E_UNUSED_PARAMETER);
    ddp_recorder_point(&f.recorder, 6);
    fixture_read(&f);
    CT_CHECK(f.page.phase == DDP_PHASE_BACKWARD && f.page.phase_enter_ns == 200);
    CT_CHECK(f.page.step == 5 && f.page.micro == 1 && f.page.last_param == 4);
    CT_CHECK(f.page.comm == 1 && f.page.seq_posted == 9 && f.page.seq_done == 8);
    CT_CHECK(f.page.posted_op == 0xabc && f.page.posted_count == 1000);
    CT_CHECK(f.page.wait_kind == DDP_WAIT_COLLECTIVE && f.page.wait_seq == 9);
    CT_CHECK(f.page.wait_peer == 1 && f.page.wait_enter_ns == 300 && f.page.heartbeat_ns == 300);
    CT_CHECK(f.page.message_count == 1 && f.page.revoke_rank == 4 && f.page.last_point == 7);
    CT_CHECK_EQ_U64(f.page.revoke_status, (uint32_t)DDP_E_UNUSED_PARAMETER);
    CT_CHECK(f.page.event_count == 2 && f.page.end_status == 0);
    CT_CHECK_EQ_U64(f.page.posted_waited, 0);
    ddp_recorder_wait_end(&f.recorder);
    ddp_recorder_collective_done(&f.recorder, 9);
    ddp_recorder_collective_posted(&f.recorder, 1, 10, 0xabc, 1000);
    fixture_read(&f);
    CT_CHECK_EQ_U64(f.page.posted_waited, 0); /* done is not waited for */
    ddp_recorder_event(&f.recorder, DDP_EVENT_COLL_WAITED, 10, 0, 0, 0, 0);
    ddp_recorder_collective_posted(&f.recorder, 1, 11, 0xabc, 1000);
    fixture_read(&f);
    CT_CHECK_EQ_U64(f.page.posted_waited, 1);
    ddp_recorder_end(&f.recorder, DDP_E_PEER_DIED, 5);
    fixture_read(&f);
    CT_CHECK(f.page.wait_kind == DDP_WAIT_NONE && f.page.wait_peer == 0);
    CT_CHECK_EQ_U64(f.page.end_status, 1 + (uint64_t)(uint32_t)DDP_E_PEER_DIED);
    fixture_fini(&f);
}

/* Saying the same missing peer again leaves the page unchanged; anything else changes it. */
CT_TEST(recorder, repeated_peer_is_no_change)
{
    struct fixture f;
    uint64_t change;

    fixture_init(&f);
    ddp_recorder_wait_begin(&f.recorder, DDP_WAIT_COLLECTIVE, 1);
    ddp_recorder_wait_peer(&f.recorder, 3);
    fixture_read(&f);
    change = f.page.change;
    CT_CHECK_EQ_U64(change % 2, 0);
    ddp_recorder_wait_peer(&f.recorder, 3);
    fixture_read(&f);
    CT_CHECK_EQ_U64(f.page.change, change);
    ddp_recorder_wait_peer(&f.recorder, -1);
    fixture_read(&f);
    CT_CHECK(f.page.change == change + 2 && f.page.wait_peer == 0);
    ddp_recorder_message(&f.recorder);
    fixture_read(&f);
    CT_CHECK_EQ_U64(f.page.change, change + 4);
    fixture_fini(&f);
}

/* A page that is being written, or was never initialised, is not read. */
CT_TEST(recorder, unstable_page_is_refused)
{
    static struct ddp_page blank;
    struct fixture f;

    CT_CHECK(!ddp_page_read(&blank, &f.page));
    fixture_init(&f);
    f.recorder.page->change++;
    CT_CHECK(!ddp_page_read(f.recorder.page, &f.page));
    fixture_fini(&f);
}

/* The ring keeps the last entries with their place and arguments; older ones are reported lost,
 * later ones as not there yet, and a half-written one as torn. */
CT_TEST(recorder, ring_keeps_the_latest)
{
    struct fixture f;
    struct ddp_event_entry entry;
    const struct ddp_event_entry *ring;

    fixture_init(&f);
    ring = ddp_recorder_ring(f.storage);
    CT_CHECK(ring == f.recorder.ring);
    CT_CHECK_STATUS(ddp_ring_read(ring, RING_ENTRIES, 0, &entry), DDP_E_NOT_FOUND);
    CT_CHECK_STATUS(ddp_ring_read(ring, RING_ENTRIES, 1, &entry), DDP_E_NOT_FOUND);
    ddp_recorder_step(&f.recorder, 6, 2);
    for (uint64_t i = 1; i <= 10; i++) {
        ddp_recorder_event(&f.recorder, DDP_EVENT_LOSS, i, 2 * i, 3 * i, 4 * i, 5 * i);
    }
    CT_CHECK_STATUS(ddp_ring_read(ring, RING_ENTRIES, 2, &entry), DDP_E_CORRUPT);
    CT_CHECK_STATUS(ddp_ring_read(ring, RING_ENTRIES, 11, &entry), DDP_E_NOT_FOUND);
    for (uint64_t i = 3; i <= 10; i++) {
        CT_CHECK_OK(ddp_ring_read(ring, RING_ENTRIES, i, &entry));
        CT_CHECK(entry.index == i && entry.time_ns == 100 && entry.event == DDP_EVENT_LOSS);
        CT_CHECK(entry.step == 6 && entry.micro == 2 && entry.phase == DDP_PHASE_SPAWN);
        CT_CHECK(entry.arg[0] == i && entry.arg[4] == 5 * i);
    }
    f.recorder.ring[2].index = 0;
    CT_CHECK_STATUS(ddp_ring_read(ring, RING_ENTRIES, 3, &entry), DDP_E_CORRUPT);
    fixture_fini(&f);
}

/* Writer and reader at once. Every field that the writer changes together carries one number. */
struct race {
    struct ddp_recorder recorder;
    uint64_t ring_entry_count;
    int is_done;
};

static void *race_write(void *argument)
{
    enum { ROUNDS = 30000 };
    struct race *race = (struct race *)argument;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        ddp_recorder_collective_posted(&race->recorder, i, i, i, i);
        ddp_recorder_event(&race->recorder, DDP_EVENT_LOSS, i, i, i, i, i);
    }
    __atomic_store_n(&race->is_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Check what can be read now; counts the states seen. */
static void race_read(struct race *race, uint64_t *out_pages, uint64_t *out_entries)
{
    const struct ddp_event_entry *ring = race->recorder.ring;
    struct ddp_event_entry entry;
    struct ddp_page page;

    if (!ddp_page_read(race->recorder.page, &page)) {
        return;
    }
    (*out_pages)++;
    CT_CHECK(page.comm == page.seq_posted && page.comm == page.posted_op &&
             page.comm == page.posted_count);
    CT_CHECK(page.event_count == page.comm || page.event_count + 1 == page.comm);
    /* From the entry that is being written now, which may be missing but never half there. */
    for (uint64_t back = 0; back <= race->ring_entry_count && back <= page.event_count; back++) {
        uint64_t index = page.event_count + 1 - back;

        if (ddp_ring_read(ring, race->ring_entry_count, index, &entry) != DDP_OK) {
            continue; /* not there yet or overwritten: reported, hence fine */
        }
        (*out_entries)++;
        for (int k = 0; k < 5; k++) {
            CT_CHECK_EQ_U64(entry.arg[k], index);
        }
    }
}

static void check_race(uint64_t ring_entry_count)
{
    struct ddp_mem *mem = ddp_mem_system();
    void *storage = ddp_mem_array(mem, ddp_recorder_size_bytes(ring_entry_count) + 64, 1);
    uint64_t pages = 0;
    uint64_t entries = 0;
    struct race race;
    pthread_t writer;

    CT_REQUIRE(storage != NULL);
    memset(&race, 0, sizeof(race));
    race.ring_entry_count = ring_entry_count;
    /* Off by half a cache line, so that an entry lies in two of them: within one, the hardware
     * hands over a whole entry even when the writer's order is wrong. */
    ddp_recorder_init(&race.recorder, (char *)storage + 32, ring_entry_count, ddp_clock_monotonic(),
                      0, 1, 1);
    CT_REQUIRE(pthread_create(&writer, NULL, race_write, &race) == 0);
    while (__atomic_load_n(&race.is_done, __ATOMIC_ACQUIRE) == 0) {
        race_read(&race, &pages, &entries);
    }
    CT_CHECK(pthread_join(writer, NULL) == 0);
    race_read(&race, &pages, &entries);
    CT_CHECK(pages > 0 && entries >= ring_entry_count);
    ddp_mem_free(mem, storage);
}

/* A consistent copy never mixes two states, and no torn entry passes for a whole one. */
CT_TEST(recorder, concurrent_reader_sees_whole_states)
{
    check_race(16);
}

/* The same where the ring's size is no power of two, and so small that most reads race. */
CT_TEST(recorder, concurrent_reader_of_a_tiny_ring)
{
    check_race(3);
}
