/* Ranks that report models and samples, entry by entry, and what is found. */
#ifndef TESTS_UNIT_OBSERVED_FAKE_REPORT_H
#define TESTS_UNIT_OBSERVED_FAKE_REPORT_H

#include "harness/observed/observed.h"
#include "tests/unit/watch/fake_rank.h"

struct fake_report {
    struct fake_job job;
    struct harness_observed *observed;
    struct harness_findings earlier;
};

/* All ranks attach, and make the communicator "world". */
void fake_open(struct fake_report *fake, uint32_t world_size);
void fake_close(struct fake_report *fake);
/* A table of `count` tensors of 10 floats each, called t0, t1, ... */
void fake_table(struct fake_report *fake, uint32_t rank, uint32_t count);
/* An update in which tensor 1's data hash to `hash`, and all else to the same numbers. */
void fake_update(struct fake_report *fake, uint32_t rank, uint32_t step, uint64_t hash);
void fake_epoch(struct fake_report *fake, uint32_t rank, uint64_t number, uint64_t samples,
                uint64_t padded, uint64_t dropped, uint64_t rule);
void fake_epoch_end(struct fake_report *fake, uint32_t rank);
/* A batch of samples first, first + stride, ... */
void fake_batch(struct fake_report *fake, uint32_t rank, uint32_t step, uint64_t first,
                uint64_t stride, uint64_t count);
/* Read and judge, twice. Returns how many findings there are so far. */
size_t fake_judge(struct fake_report *fake);
size_t fake_judge_once(struct fake_report *fake);
/* The only finding must be this one, of these ranks in this step, with these words. */
void fake_expect(struct fake_report *fake, enum harness_verdict verdict, const char *ranks,
                 int32_t step, const char *words);
/* How much an oracle has judged, and why it has not judged more ("" if all is judged). */
void fake_account(struct fake_report *fake, enum harness_oracle_id oracle, uint64_t judged,
                  const char *why);

#endif
