/* Purpose: learn which all-reduce is right for which size.
 * Idea: all are measured one after the other, with messages of their own longest length and of
 * shorter ones; of each size the fastest is taken, in place, as the core's buckets are. A choice
 * holds up to half way to the next size that was measured. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/lab/bench.h"

/* 0: the algorithm's own. */
static const size_t segments[] = {0, 32 << 10, 128 << 10};
enum { SEGMENTS = sizeof segments / sizeof segments[0] };

/* Messages of another length than the algorithm's own must be that much faster. */
#define MARGIN 1.03

struct best {
    double time_us;
    struct ddp_coll_choice choice;
};

struct learning {
    struct best best[HARNESS_BENCH_SIZES_MAX];
    size_t size_bytes[HARNESS_BENCH_SIZES_MAX];
    size_t size_count;
};

static ddp_status take(struct learning *learning, const struct harness_bench_report *report,
                       size_t segment_bytes, struct ddp_err *err)
{
    for (size_t i = 0; i < report->subject_count; i++) {
        const struct harness_bench_subject *subject = &report->subjects[i];
        enum ddp_algorithm_id id;

        if (subject->text[0] != '\0' || harness_bench_outcome(report) == HARNESS_OUTCOME_FAIL ||
            ddp_algorithm_parse(subject->name, DDP_COLL_ALL_REDUCE, &id) != DDP_OK) {
            return ddp_err_set(err, DDP_E_INVALID, "%s: %s", subject->name,
                               subject->text[0] != '\0' ? subject->text : "a sum was wrong");
        }
        learning->size_count = subject->row_count;
        for (size_t k = 0; k < subject->row_count; k++) {
            /* The least: what else runs on the machine only adds to it. */
            double time_us = subject->row[k].time[HARNESS_BENCH_IN_PLACE].least_us;

            learning->size_bytes[k] = subject->row[k].size_bytes;
            if (segment_bytes >= subject->row[k].size_bytes) {
                continue; /* no message is that long */
            }
            time_us *= segment_bytes > 0 ? MARGIN : 1;
            if (learning->best[k].time_us <= 0 || time_us < learning->best[k].time_us) {
                learning->best[k] = (struct best){time_us, {0, id, segment_bytes}};
            }
        }
    }
    return DDP_OK;
}

static bool is_same(const struct ddp_coll_choice *a, const struct ddp_coll_choice *b)
{
    return a->algorithm == b->algorithm && a->segment_bytes == b->segment_bytes;
}

/* Sizes in a row with the same choice are one. */
static void conclude(const struct learning *learning, struct ddp_tuned_world *out)
{
    for (size_t k = 0; k < learning->size_count; k++) {
        struct ddp_coll_choice *last =
            out->choice_count > 0 ? &out->choice[out->choice_count - 1] : NULL;
        size_t size = learning->size_bytes[k];
        size_t next = k + 1 < learning->size_count ? learning->size_bytes[k + 1] : size;

        if (last == NULL || (!is_same(last, &learning->best[k].choice) &&
                             out->choice_count < DDP_TUNED_CHOICES_MAX)) {
            out->choice[out->choice_count++] = learning->best[k].choice;
            last = &out->choice[out->choice_count - 1];
        }
        last->bytes_max = (size_t)sqrt((double)size * (double)next);
    }
}

ddp_status harness_tuned_learn(const struct harness_bench_options *options,
                               struct ddp_tuned_world *out, struct ddp_err *err)
{
    static struct learning learning;
    const char *names[HARNESS_BENCH_SUBJECTS_MAX];
    struct harness_bench_options asked = *options;
    size_t total;
    const struct ddp_algorithm *table = ddp_algorithm_table(&total);
    ddp_status status = DDP_OK;

    asked.names = names;
    asked.name_count = 0;
    asked.is_checked = true;
    memset(&learning, 0, sizeof learning);
    for (size_t i = 0; i < total; i++) {
        if (table[i].kind == DDP_COLL_ALL_REDUCE) {
            names[asked.name_count++] = table[i].name;
        }
    }
    for (size_t s = 0; status == DDP_OK && s < (size_t)SEGMENTS; s++) {
        struct harness_bench_report report;

        asked.segment_bytes = segments[s];
        status = harness_bench_run(&asked, &report, err);
        if (status == DDP_OK) {
            status = take(&learning, &report, segments[s], err);
        }
        harness_bench_fini(&report);
    }
    *out = (struct ddp_tuned_world){.ranks = options->ranks};
    if (status == DDP_OK) {
        conclude(&learning, out);
    }
    return status;
}
