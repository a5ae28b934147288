/* Progress words: how marks are packed and counted, and that a reader never takes words of two
 * moments for one. */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ddpcore/seam/progress.h"
#include "tests/ct.h"

/* A mark's three parts come back from its word, and words grow with the count. */
CT_TEST(progress, marks_pack_and_grow)
{
    uint64_t before = 0;

    for (uint64_t count = 1; count < UINT64_C(1) << 39; count *= 3) {
        for (unsigned kind = 0; kind < DDP_MARK_COUNT; kind++) {
            uint64_t word = ddp_mark_pack(count, (enum ddp_mark)kind, count + kind);

            CT_CHECK_EQ_U64(ddp_mark_count(word), count);
            CT_CHECK_EQ_U64(ddp_mark_kind(word), kind);
            CT_CHECK_EQ_U64(ddp_mark_index(word), (count + kind) % 65536);
            CT_CHECK(word > before);
        }
        before = ddp_mark_pack(count, DDP_MARK_COLL_END, 0xffff);
    }
}

/* Every mark has a name of its own; a number that is none has "?". */
CT_TEST(progress, marks_have_names)
{
    for (unsigned i = 0; i < DDP_MARK_COUNT; i++) {
        for (unsigned k = 0; k < i; k++) {
            CT_CHECK(strcmp(ddp_mark_name((enum ddp_mark)i), ddp_mark_name((enum ddp_mark)k)) != 0);
        }
    }
    CT_CHECK_STR(ddp_mark_name(DDP_MARK_FORWARD), "forward");
    CT_CHECK_STR(ddp_mark_name(DDP_MARK_COUNT), "?");
}

/* Each stream counts its own marks, and shows them as enqueued at once. */
CT_TEST(progress, streams_count_apart)
{
    struct ddp_progress words = {0};
    struct ddp_progress copy;

    CT_CHECK_EQ_U64(ddp_progress_next(NULL, DDP_PROGRESS_COMM, DDP_MARK_COLL, 1), 0);
    ddp_progress_set_mapped(&words, true);
    for (uint64_t i = 1; i <= 3; i++) {
        uint64_t word = ddp_progress_next(&words, DDP_PROGRESS_COMPUTE, DDP_MARK_FORWARD, i);

        CT_CHECK_EQ_U64(word, ddp_mark_pack(i, DDP_MARK_FORWARD, i));
        CT_CHECK_EQ_U64(words.stream[DDP_PROGRESS_COMPUTE].enqueued, word);
        CT_CHECK_EQ_U64(words.stream[DDP_PROGRESS_COMPUTE].reached, 0);
    }
    CT_CHECK_EQ_U64(ddp_progress_next(&words, DDP_PROGRESS_COMM, DDP_MARK_COLL, 70000),
                    ddp_mark_pack(1, DDP_MARK_COLL, 70000 - 65536));
    CT_CHECK(ddp_progress_read(&words, &copy));
    CT_CHECK(copy.is_mapped == 1 && ddp_progress_is_equal(&words, &copy));
    ddp_progress_set_mapped(&words, false);
    CT_CHECK(!ddp_progress_is_equal(&words, &copy));
    for (int i = 0; i < DDP_PROGRESS_STREAM_COUNT; i++) {
        CT_CHECK(ddp_progress_read(&words, &copy));
        copy.stream[i].reached++;
        CT_CHECK(!ddp_progress_is_equal(&words, &copy));
        copy.stream[i].reached--;
        copy.stream[i].enqueued++;
        CT_CHECK(!ddp_progress_is_equal(&words, &copy));
    }
}

/* How many rounds the host has not enqueued is copied, and going down is progress. */
CT_TEST(progress, shows_rounds_that_are_left)
{
    struct ddp_progress words = {0};
    struct ddp_progress before, after;

    ddp_progress_set_rounds(NULL, 6);
    ddp_progress_set_rounds(&words, 6);
    CT_CHECK(ddp_progress_read(&words, &before));
    CT_CHECK_EQ_U64(before.rounds_left, 6);
    ddp_progress_set_rounds(&words, 5);
    CT_CHECK(ddp_progress_read(&words, &after));
    CT_CHECK_EQ_U64(after.rounds_left, 5);
    CT_CHECK(!ddp_progress_is_equal(&before, &after));
}

/* Words whose second stream lies in a page that cannot be read at first. */
static struct torn {
    char *pages;
    long page_bytes;
    struct ddp_progress *words;
    uint64_t fault_count;
} torn;

static void pass_mark(enum ddp_progress_stream stream)
{
    torn.words->stream[stream].reached =
        ddp_progress_next(torn.words, stream, DDP_MARK_COLL, torn.fault_count);
}

/* The reader has the first stream's words and not yet the second's: now both move. */
static void move_on(int signal_number)
{
    (void)signal_number;
    torn.fault_count++;
    (void)mprotect(torn.pages, 2 * (size_t)torn.page_bytes, PROT_READ | PROT_WRITE);
    pass_mark(DDP_PROGRESS_COMPUTE);
    pass_mark(DDP_PROGRESS_COMM);
}

/* Words that move in the middle of a copy are copied again. */
CT_TEST(progress, copies_again_when_words_move)
{
    struct sigaction action = {.sa_handler = move_on};
    struct sigaction before;
    struct ddp_progress copy;

    torn = (struct torn){.page_bytes = sysconf(_SC_PAGESIZE)};
    torn.pages = mmap(NULL, 2 * (size_t)torn.page_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CT_REQUIRE(torn.pages != MAP_FAILED);
    torn.words =
        (struct ddp_progress *)(void *)(torn.pages + torn.page_bytes -
                                        offsetof(struct ddp_progress, stream[DDP_PROGRESS_COMM]));
    CT_REQUIRE(sigaction(SIGSEGV, &action, &before) == 0);
    CT_REQUIRE(mprotect(torn.pages + torn.page_bytes, (size_t)torn.page_bytes, PROT_NONE) == 0);
    CT_CHECK(ddp_progress_read(torn.words, &copy));
    CT_CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    CT_CHECK_EQ_U64(torn.fault_count, 1);
    for (int i = 0; i < DDP_PROGRESS_STREAM_COUNT; i++) {
        CT_CHECK_EQ_U64(copy.stream[i].reached, ddp_mark_pack(1, DDP_MARK_COLL, 1));
        CT_CHECK_EQ_U64(copy.stream[i].enqueued, copy.stream[i].reached);
    }
    CT_CHECK(munmap(torn.pages, 2 * (size_t)torn.page_bytes) == 0);
}

/* A rank's host and its device's two streams, each a thread; both streams' marks are enqueued in
 * turn, so at any one moment the counts differ by one at most. Goes on until the reader has seen
 * enough. */
enum { MARKS = 20000, COPIES = 1000 };
struct race {
    struct ddp_progress words;
    uint64_t copy_count;
    int is_done;
};

/* As a stream does: whatever was enqueued is reached some time later, mark by mark. */
static void store_reached(struct race *race, enum ddp_progress_stream stream)
{
    struct ddp_progress_words *words = &race->words.stream[stream];
    uint64_t count = 0;
    bool is_done;

    do {
        is_done = __atomic_load_n(&race->is_done, __ATOMIC_ACQUIRE) != 0;
        while (count < ddp_mark_count(__atomic_load_n(&words->enqueued, __ATOMIC_ACQUIRE))) {
            count++;
            __atomic_store_n(&words->reached, ddp_mark_pack(count, DDP_MARK_COLL, count),
                             __ATOMIC_RELEASE);
        }
    } while (!is_done);
}

static void *run_compute(void *self)
{
    store_reached(self, DDP_PROGRESS_COMPUTE);
    return NULL;
}

static void *run_comm(void *self)
{
    store_reached(self, DDP_PROGRESS_COMM);
    return NULL;
}

static void *run_host(void *self)
{
    struct race *race = self;

    for (uint64_t i = 1;
         i <= MARKS || __atomic_load_n(&race->copy_count, __ATOMIC_RELAXED) < COPIES; i++) {
        (void)ddp_progress_next(&race->words, DDP_PROGRESS_COMPUTE, DDP_MARK_COLL, i);
        (void)ddp_progress_next(&race->words, DDP_PROGRESS_COMM, DDP_MARK_COLL, i);
    }
    __atomic_store_n(&race->is_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void check_moment(const struct ddp_progress *copy)
{
    uint64_t compute = ddp_mark_count(copy->stream[DDP_PROGRESS_COMPUTE].enqueued);
    uint64_t comm = ddp_mark_count(copy->stream[DDP_PROGRESS_COMM].enqueued);

    CT_CHECK(compute == comm || compute == comm + 1);
    for (int i = 0; i < DDP_PROGRESS_STREAM_COUNT; i++) {
        CT_CHECK(copy->stream[i].reached <= copy->stream[i].enqueued);
        CT_CHECK_EQ_U64(ddp_mark_index(copy->stream[i].reached),
                        ddp_mark_count(copy->stream[i].reached) % 65536);
    }
}

/* A copy holds all words as they were at one moment. */
CT_TEST(progress, copies_are_of_one_moment)
{
    struct race race = {0};
    struct ddp_progress copy;
    pthread_t host, compute, comm;

    ddp_progress_set_mapped(&race.words, true);
    CT_REQUIRE(pthread_create(&compute, NULL, run_compute, &race) == 0);
    CT_REQUIRE(pthread_create(&comm, NULL, run_comm, &race) == 0);
    CT_REQUIRE(pthread_create(&host, NULL, run_host, &race) == 0);
    while (__atomic_load_n(&race.is_done, __ATOMIC_ACQUIRE) == 0) {
        if (ddp_progress_read(&race.words, &copy)) {
            check_moment(&copy);
            (void)__atomic_add_fetch(&race.copy_count, 1, __ATOMIC_RELAXED);
        }
    }
    CT_CHECK(pthread_join(host, NULL) == 0);
    CT_CHECK(pthread_join(compute, NULL) == 0);
    CT_CHECK(pthread_join(comm, NULL) == 0);
    CT_CHECK(ddp_progress_read(&race.words, &copy));
    check_moment(&copy);
    for (int i = 0; i < DDP_PROGRESS_STREAM_COUNT; i++) {
        CT_CHECK(ddp_mark_count(copy.stream[i].reached) >= MARKS);
        CT_CHECK_EQ_U64(copy.stream[i].reached, copy.stream[i].enqueued);
    }
}
