/* Pictures: the first cut of each kind of conclusion, in memory that never grows. */
#include <string.h>

#include "harness/monitor/wait_snapshot.h"
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 3 };

struct gallery {
    struct cut_job job;
    struct harness_conclusions watch;
    struct harness_wait_snapshot *picture;
};

static void gallery_open(struct gallery *gallery)
{
    cut_init(&gallery->job, RANKS);
    harness_conclusions_init(&gallery->watch, ddp_mem_system());
    gallery->picture = ddp_mem_array(ddp_mem_system(), 1, sizeof *gallery->picture);
    harness_wait_snapshot_init(gallery->picture, CUT_NOW_NS - 7 * CUT_MS);
}

static void gallery_close(struct gallery *gallery)
{
    cut_fini(&gallery->job);
    harness_conclusions_fini(&gallery->watch);
    ddp_mem_free(ddp_mem_system(), gallery->picture);
}

/* As the monitor does: judge, note, and keep what was seen. */
static void look(struct gallery *gallery)
{
    struct cut_job *job = &gallery->job;

    cut_analyse(job);
    harness_conclusions_note(&gallery->watch, &job->findings, job->cut.now_ns);
    harness_wait_snapshot_take(gallery->picture, &job->plan, &job->program, &job->cut,
                               &gallery->watch);
}

/* Free with ddp_text_fini. */
static const char *print(const struct gallery *gallery, struct ddp_text *out)
{
    ddp_text_init(out, ddp_mem_system());
    harness_wait_snapshot_print(gallery->picture, out);
    return ddp_text_str(out);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

/* Nothing concluded, nothing kept; then the cut of the conclusion, with its time and sentence. */
CT_TEST(monitor_picture, shows_the_cut_that_was_judged)
{
    struct gallery gallery;
    struct ddp_text text;
    const char *said;

    gallery_open(&gallery);
    look(&gallery);
    CT_CHECK_STR(print(&gallery, &text), "");
    ddp_text_fini(&text);
    cut_process(&gallery.job, 1, HARNESS_PROCESS_SIGNALED, 9, 0);
    look(&gallery);
    said = print(&gallery, &text);
    CT_CHECK(strncmp(said, "CRASH.SIGNALED (provable) 7.000 ms after the start: rank 1 ended by ",
                     67) == 0);
    CT_CHECK(strstr(said, "\nr1 (culprit) ended by signal 9 (SIGKILL), 0.0 ms ago") != NULL);
    CT_CHECK(
        strstr(said, "\nr2 waits for r1: all_reduce seq 6 (bucket 1: fc0.bias, fc0.weight)\n") !=
        NULL);
    ddp_text_fini(&text);
    gallery_close(&gallery);
}

/* A hang is kept as it was when it was said, not as it was first suspected. */
CT_TEST(monitor_picture, waits_for_a_hang_to_settle)
{
    struct gallery gallery;
    struct ddp_text text;

    gallery_open(&gallery);
    cut_post(&gallery.job, 1, cut_seq(1, 0));
    cut_host(&gallery.job, 1, DDP_PHASE_BACKWARD, 2001);
    look(&gallery);
    CT_CHECK_STR(print(&gallery, &text), "");
    ddp_text_fini(&text);
    gallery.job.cut.now_ns += HARNESS_CONCLUSIONS_SETTLE_NS;
    look(&gallery);
    CT_CHECK(strstr(print(&gallery, &text),
                    "HANG.NOT_JOINED (budget) 17.000 ms after the start: ") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "silent in host code for 2011.0 ms (budget 2000 ms)\n") !=
             NULL);
    ddp_text_fini(&text);
    gallery_close(&gallery);
}

/* One picture a kind: a second death adds nothing, a mismatch does. */
CT_TEST(monitor_picture, keeps_the_first_of_each_kind)
{
    struct gallery gallery;
    struct ddp_text text;

    gallery_open(&gallery);
    cut_process(&gallery.job, 1, HARNESS_PROCESS_SIGNALED, 9, 0);
    look(&gallery);
    look(&gallery);
    gallery.job.cut.now_ns += CUT_MS;
    cut_process(&gallery.job, 2, HARNESS_PROCESS_SIGNALED, 6, 0);
    look(&gallery);
    CT_CHECK_EQ_U64(count_of(print(&gallery, &text), " after the start: "), 1);
    CT_CHECK(strstr(ddp_text_str(&text), "SIGABRT") == NULL);
    ddp_text_fini(&text);
    gallery.job.cut.now_ns += CUT_MS;
    gallery.job.pages[0].posted_count = 55;
    look(&gallery);
    CT_CHECK_EQ_U64(count_of(print(&gallery, &text), " after the start: "), 2);
    CT_CHECK(strstr(ddp_text_str(&text),
                    "\nMISMATCH.COUNT (provable) 9.000 ms after the start: ") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "SIGABRT") != NULL);
    ddp_text_fini(&text);
    gallery_close(&gallery);
}

/* What finds no room is counted; what is there stays whole. */
CT_TEST(monitor_picture, never_overflows)
{
    struct gallery gallery;
    struct ddp_text text;
    size_t used;

    gallery_open(&gallery);
    cut_process(&gallery.job, 1, HARNESS_PROCESS_SIGNALED, 9, 0);
    look(&gallery);
    used = (size_t)gallery.picture->size_bytes;
    memset(gallery.picture->text + used, '\n', HARNESS_WAIT_SNAPSHOT_BYTES_MAX - 300 - used);
    gallery.picture->size_bytes = HARNESS_WAIT_SNAPSHOT_BYTES_MAX - 300;
    gallery.job.cut.now_ns += CUT_MS;
    gallery.job.pages[0].posted_count = 55;
    look(&gallery);
    CT_CHECK_EQ_U64(gallery.picture->size_bytes, HARNESS_WAIT_SNAPSHOT_BYTES_MAX - 300);
    CT_CHECK(strstr(print(&gallery, &text), "\n... no room for 1 more conclusions\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "MISMATCH") == NULL);
    ddp_text_fini(&text);
    gallery_close(&gallery);
}
