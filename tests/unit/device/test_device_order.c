/* The device contract, everything but arithmetic: memory, copies, the order of streams, words in
 * shared memory, faults. Runs on every device; on one that does everything at once the late work of
 * these cases is simply early. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/device/device_bench.h"

enum { TARGET, SOURCE, OTHER, RANGE_BYTES = 5000, LATE_MS = 30 };

/* The host's payload of a range, filled with one byte, and the device's after a push. */
static void *push_filled(struct bench *bench, unsigned range, unsigned char byte)
{
    memset(bench_begin(bench, range, 1, RANGE_BYTES, 3), byte, RANGE_BYTES);
    return bench_push(bench, range);
}

static bool is_filled(const void *data, unsigned char byte, size_t size_bytes)
{
    const unsigned char *bytes = (const unsigned char *)data;

    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != byte) {
            return false;
        }
    }
    return true;
}

/* Copy and zero touch their range and nothing else; size 0 touches nothing. */
CT_TEST(device, copies_and_zeroes)
{
    struct bench bench;
    unsigned char *target;
    const unsigned char *source;
    const unsigned char *got;

    BENCH_OPEN(&bench);
    target = (unsigned char *)push_filled(&bench, TARGET, 1);
    source = (const unsigned char *)push_filled(&bench, SOURCE, 2);
    CT_CHECK_OK(bench.ops->copy(bench.device, NULL, target, source, RANGE_BYTES));
    CT_CHECK(is_filled(bench_pull(&bench, TARGET), 2, RANGE_BYTES));
    CT_CHECK_OK(bench.ops->zero(bench.device, NULL, target + 1, 50));
    got = (const unsigned char *)bench_pull(&bench, TARGET);
    CT_CHECK(got[0] == 2 && is_filled(got + 1, 0, 50) && got[51] == 2);
    CT_CHECK_OK(bench.ops->copy(bench.device, NULL, target, source, 0));
    CT_CHECK_OK(bench.ops->copy(bench.device, NULL, NULL, NULL, 0));
    CT_CHECK_OK(bench.ops->zero(bench.device, NULL, NULL, 0));
    bench_close(&bench);
}

/* Memory of both spaces is aligned and zero, again after it was used and freed; nothing and too
 * much are answered. */
CT_TEST(device, memory_is_zero_and_aligned)
{
    static const size_t sizes[] = {1, 512, 513, 1000, 4096, 5000, 100000, 3000000};
    struct bench bench;
    void *data;

    BENCH_OPEN(&bench);
    for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        enum ddp_space space = i % 2 == 0 ? DDP_SPACE_DEVICE : DDP_SPACE_HOST;
        size_t size_bytes = sizes[i / 2];
        for (unsigned round = 0; round < 3; round++) {
            unsigned char *host = (unsigned char *)bench_begin(&bench, TARGET, 1, size_bytes, 0);
            CT_REQUIRE_OK(bench.ops->alloc(bench.device, size_bytes, space, &data));
            CT_CHECK_EQ_U64((uintptr_t)data % 64, 0);
            CT_CHECK_OK(ddp_transfer_to_host(&bench.transfer, host, data, size_bytes));
            CT_CHECK(is_filled(host, 0, size_bytes));
            memset(host, 0xEE, size_bytes);
            CT_CHECK_OK(ddp_transfer_to_device(&bench.transfer, data, host, size_bytes));
            bench.ops->free(bench.device, space, data);
        }
    }
    CT_CHECK_OK(bench.ops->alloc(bench.device, 0, DDP_SPACE_DEVICE, &data));
    CT_CHECK(data != NULL);
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    bench.ops->free(bench.device, DDP_SPACE_HOST, NULL);
    CT_CHECK_STATUS(bench.ops->alloc(bench.device, SIZE_MAX / 2, DDP_SPACE_DEVICE, &data),
                    bench.ops->is_host_memory ? DDP_E_NOMEM : DDP_E_DEVICE_MEMORY);
    CT_CHECK_STATUS(bench.ops->alloc(bench.device, SIZE_MAX / 2, DDP_SPACE_HOST, &data),
                    DDP_E_NOMEM);
    if (!bench.ops->is_host_memory) {
        /* A host may promise that much and never keep it. */
        CT_CHECK_STATUS(bench.ops->alloc(bench.device, (size_t)1 << 45, DDP_SPACE_DEVICE, &data),
                        DDP_E_DEVICE_MEMORY);
    }
    CT_CHECK_OK(bench.ops->alloc(bench.device, 100, DDP_SPACE_DEVICE, &data));
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    bench_close(&bench);
}

/* Transfers of any length arrive whole, both ways, whatever memory the host's side is. */
CT_TEST(device, transfers_are_whole)
{
    static const size_t sizes[] = {1, DDP_TRANSFER_PIECE_BYTES - 1, DDP_TRANSFER_PIECE_BYTES,
                                   DDP_TRANSFER_PIECE_BYTES + 1, 2 * DDP_TRANSFER_PIECE_BYTES + 3};
    static unsigned char sent[2 * DDP_TRANSFER_PIECE_BYTES + 3], got[sizeof(sent) + 1];
    struct ddp_prng prng = ddp_prng_make(1, "test/transfers");
    struct bench bench;
    const void *seen;
    void *data;

    BENCH_OPEN(&bench);
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, sizeof(sent), DDP_SPACE_DEVICE, &data));
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (unsigned char)ddp_prng_below(&prng, 256);
    }
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(got, 0xA5, sizeof(got));
        CT_CHECK_OK(ddp_transfer_to_device(&bench.transfer, data, sent, sizes[i]));
        CT_CHECK_OK(ddp_transfer_to_host(&bench.transfer, got, data, sizes[i]));
        CT_CHECK(memcmp(got, sent, sizes[i]) == 0);
        CT_CHECK_EQ_U64(got[sizes[i]], 0xA5);
        CT_CHECK_OK(ddp_transfer_view(&bench.transfer, data, sizes[i], &seen));
        CT_CHECK(memcmp(seen, sent, sizes[i]) == 0);
    }
    CT_CHECK_OK(ddp_transfer_to_device(&bench.transfer, data, sent, 0));
    CT_CHECK_OK(ddp_transfer_to_host(&bench.transfer, got, data, 0));
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    bench_close(&bench);
}

/* Blocks that live together do not overlap, whatever was freed in between. */
CT_TEST(device, live_memory_is_disjoint)
{
    enum { BLOCKS = 64, ROUNDS = 8 };
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(1, "test/blocks");
    void *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};

    BENCH_OPEN(&bench);
    for (unsigned i = 0; i < BLOCKS * ROUNDS; i++) {
        unsigned slot = (unsigned)ddp_prng_below(&prng, BLOCKS);
        bench.ops->free(bench.device, DDP_SPACE_DEVICE, blocks[slot]);
        sizes[slot] = 1 + (size_t)ddp_prng_below(&prng, 20000);
        CT_REQUIRE_OK(bench.ops->alloc(bench.device, sizes[slot], DDP_SPACE_DEVICE, &blocks[slot]));
        for (unsigned other = 0; other < BLOCKS; other++) {
            uintptr_t a = (uintptr_t)blocks[slot];
            uintptr_t b = (uintptr_t)blocks[other];
            CT_CHECK(other == slot || b == 0 || a + sizes[slot] <= b || b + sizes[other] <= a);
        }
    }
    for (unsigned slot = 0; slot < BLOCKS; slot++) {
        bench.ops->free(bench.device, DDP_SPACE_DEVICE, blocks[slot]);
    }
    bench_close(&bench);
}

/* New memory is zero on every stream at once, even where older work on the default stream still
 * uses the block that it was. */
CT_TEST(device, reused_memory_is_zero_on_every_stream)
{
    struct bench bench;
    struct ddp_stream *stream;
    void *data;
    void *seen;

    BENCH_OPEN(&bench);
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stream));
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, RANGE_BYTES, DDP_SPACE_HOST, &seen));
    memset(seen, 0xEE, RANGE_BYTES);
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, RANGE_BYTES, DDP_SPACE_DEVICE, &data));
    bench_spin(&bench, NULL, LATE_MS);
    CT_CHECK_OK(bench.ops->copy(bench.device, NULL, data, seen, RANGE_BYTES));
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, RANGE_BYTES, DDP_SPACE_DEVICE, &data));
    CT_CHECK_OK(bench.ops->copy(bench.device, stream, seen, data, RANGE_BYTES));
    CT_CHECK_OK(bench_drain(&bench, stream));
    CT_CHECK(is_filled(seen, 0, RANGE_BYTES));
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    bench.ops->free(bench.device, DDP_SPACE_HOST, seen);
    bench.ops->stream_destroy(bench.device, stream);
    bench_close(&bench);
}

/* Host memory that the default stream still writes to is not handed out again. */
CT_TEST(device, host_memory_is_not_reused_early)
{
    struct bench bench;
    void *first;
    void *second;
    const void *source;

    BENCH_OPEN(&bench);
    source = push_filled(&bench, SOURCE, 0xEE);
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, RANGE_BYTES, DDP_SPACE_HOST, &first));
    bench_spin(&bench, NULL, LATE_MS);
    CT_CHECK_OK(bench.ops->copy(bench.device, NULL, first, source, RANGE_BYTES));
    bench.ops->free(bench.device, DDP_SPACE_HOST, first);
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, RANGE_BYTES, DDP_SPACE_HOST, &second));
    CT_CHECK_OK(bench_drain(&bench, NULL));
    CT_CHECK(is_filled(second, 0, RANGE_BYTES));
    bench.ops->free(bench.device, DDP_SPACE_HOST, second);
    bench_close(&bench);
}

/* Work behind an event starts after what is before it, on the same stream and on another. */
CT_TEST(device, events_order_streams)
{
    struct bench bench;
    struct ddp_stream *stream;
    struct ddp_device_event *event;
    void *target;
    const void *source;
    const void *other;

    BENCH_OPEN(&bench);
    target = push_filled(&bench, TARGET, 1);
    source = push_filled(&bench, SOURCE, 2);
    other = push_filled(&bench, OTHER, 3);
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stream));
    CT_REQUIRE_OK(bench.ops->event_create(bench.device, &event));
    CT_CHECK_OK(bench.ops->event_query(bench.device, event));
    for (unsigned round = 0; round < 3; round++) {
        bench_spin(&bench, stream, LATE_MS);
        CT_CHECK_OK(bench.ops->copy(bench.device, stream, target, source, RANGE_BYTES));
        CT_CHECK_OK(bench.ops->event_record(bench.device, event, stream));
        CT_CHECK_OK(bench.ops->stream_wait_event(bench.device, NULL, event));
        CT_CHECK_OK(bench.ops->copy(bench.device, NULL, target, other, RANGE_BYTES));
        CT_CHECK(is_filled(bench_pull(&bench, TARGET), 3, RANGE_BYTES));
        CT_CHECK_OK(bench.ops->event_query(bench.device, event));
    }
    bench.ops->event_destroy(bench.device, event);
    bench.ops->event_destroy(bench.device, NULL);
    bench.ops->stream_destroy(bench.device, stream);
    bench_close(&bench);
}

/* A kernel that does not end holds up its own stream and no other, and not the device's end. */
CT_TEST(device, streams_run_beside_each_other)
{
    struct bench bench;
    struct ddp_stream *stuck;
    struct ddp_stream *stream;
    struct ddp_device_event *event;
    void *target;
    const void *source;

    BENCH_OPEN(&bench);
    target = push_filled(&bench, TARGET, 1);
    source = push_filled(&bench, SOURCE, 2);
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stuck));
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stream));
    CT_REQUIRE_OK(bench.ops->event_create(bench.device, &event));
    bench_spin(&bench, stuck, 0);
    CT_CHECK_OK(bench.ops->event_record(bench.device, event, stuck));
    CT_CHECK_OK(bench.ops->copy(bench.device, stream, target, source, RANGE_BYTES));
    CT_CHECK_OK(bench_drain(&bench, stream));
    CT_CHECK(is_filled(bench_pull(&bench, TARGET), 2, RANGE_BYTES));
    CT_CHECK_STATUS(bench.ops->event_query(bench.device, event),
                    bench.ops->is_host_memory ? DDP_OK : DDP_PENDING);
    bench.ops->event_destroy(bench.device, event);
    bench.ops->stream_destroy(bench.device, stream);
    bench.ops->stream_destroy(bench.device, stuck);
    bench_close(&bench);
}

/* The device's end needs no unmap first, which would wait for a kernel that does not end. */
CT_TEST(device, ends_with_memory_mapped)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct bench bench;
    uint64_t *words;
    void *memory;

    BENCH_OPEN(&bench);
    memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CT_REQUIRE(memory != MAP_FAILED);
    words = (uint64_t *)memory;
    CT_REQUIRE_OK(bench.ops->map(bench.device, memory, page));
    bench_spin(&bench, NULL, 0);
    CT_CHECK_OK(bench.ops->store_word(bench.device, NULL, words, 5));
    bench_close(&bench);
    CT_CHECK_EQ_U64(*words, 5);
    CT_CHECK(munmap(memory, page) == 0);
}

/* Hints change neither data nor order, with any memory and on any stream. */
CT_TEST(device, hints_change_nothing)
{
    struct bench bench;
    const struct ddp_device_hint_ops *hints;
    struct ddp_device_event *event;
    struct ddp_stream *stream;
    unsigned char *host;
    unsigned char *data;
    int outside = 0;

    BENCH_OPEN(&bench);
    hints = bench.device->hints;
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stream));
    CT_REQUIRE_OK(bench.ops->event_create(bench.device, &event));
    host = bench_begin(&bench, 0, 1, 64, 0);
    memset(host, 7, 64);
    data = bench_push(&bench, 0);
    hints->collective_access(bench.device, stream, data, 64, true);
    hints->collective_access(bench.device, NULL, NULL, 0, false);
    hints->host_access(bench.device, &outside, sizeof outside, true);
    hints->hide_event(bench.device, event);
    hints->set_progress(bench.device, NULL);
    CT_CHECK_OK(hints->name_range(bench.device, DDP_RANGE_GRAD, 3, data, 64));
    CT_CHECK_OK(hints->name_range(bench.device, DDP_RANGE_BUCKET, 0, &outside, sizeof outside));
    hints->set_diagnostic(bench.device, true);
    host = bench_pull(&bench, 0);
    hints->set_diagnostic(bench.device, false);
    for (size_t i = 0; i < 64; i++) {
        CT_CHECK_EQ_U64(host[i], 7);
    }
    CT_CHECK_OK(bench.ops->event_record(bench.device, event, stream));
    CT_CHECK_OK(bench.ops->stream_wait_event(bench.device, NULL, event));
    CT_CHECK_OK(bench_drain(&bench, NULL));
    bench.ops->event_destroy(bench.device, event);
    bench.ops->stream_destroy(bench.device, stream);
    bench_close(&bench);
}

/* Devices with streams of their own name them to the vendor's libraries, each by another name. */
CT_TEST(device, native_streams)
{
    struct bench bench;
    struct ddp_stream *stream;
    const void *main_native;
    const void *native;

    BENCH_OPEN(&bench);
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stream));
    main_native = bench.ops->native_stream(bench.device, NULL);
    native = bench.ops->native_stream(bench.device, stream);
    if (bench.ops->is_host_memory) {
        CT_CHECK(main_native == NULL && native == NULL);
    } else {
        CT_CHECK(main_native != NULL && native != NULL && main_native != native);
    }
    bench.ops->stream_destroy(bench.device, stream);
    bench_close(&bench);
}

/* A word in memory that processes share takes its value after the work before it, and only then. */
CT_TEST(device, stores_words_in_shared_memory)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct bench bench;
    void *memory;
    uint64_t *words;
    uint64_t outside = 7;

    BENCH_OPEN(&bench);
    memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CT_REQUIRE(memory != MAP_FAILED);
    words = (uint64_t *)memory;
    CT_REQUIRE_OK(bench.ops->map(bench.device, memory, 2 * page));
    for (uint64_t i = 1; i <= 3; i++) {
        size_t last = 2 * page / sizeof(*words) - 1;
        bench_spin(&bench, NULL, LATE_MS);
        CT_CHECK_OK(bench.ops->store_word(bench.device, NULL, &words[1], i));
        CT_CHECK_OK(bench.ops->store_word(bench.device, NULL, &words[last], UINT64_MAX - i));
        CT_CHECK_OK(bench_drain(&bench, NULL));
        CT_CHECK_EQ_U64(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE), i);
        CT_CHECK_EQ_U64(__atomic_load_n(&words[last], __ATOMIC_ACQUIRE), UINT64_MAX - i);
        CT_CHECK(words[0] == 0 && words[2] == 0 && words[last - 1] == 0);
    }
    if (!bench.ops->is_host_memory) {
        CT_CHECK_STATUS(bench.ops->store_word(bench.device, NULL, &outside, 1), DDP_E_INVALID);
        CT_CHECK_EQ_U64(outside, 7);
        CT_CHECK_STATUS(bench.ops->map(bench.device, &words[1], page), DDP_E_INVALID);
        CT_CHECK_STATUS(bench.ops->map(bench.device, memory, 100), DDP_E_INVALID);
    }
    bench.ops->unmap(bench.device, memory);
    CT_REQUIRE_OK(bench.ops->map(bench.device, memory, page));
    CT_CHECK_OK(bench.ops->store_word(bench.device, NULL, &words[0], 99));
    CT_CHECK_OK(bench_drain(&bench, NULL));
    CT_CHECK_EQ_U64(__atomic_load_n(&words[0], __ATOMIC_ACQUIRE), 99);
    bench.ops->unmap(bench.device, memory);
    bench_close(&bench);
    (void)munmap(memory, 2 * page);
}
