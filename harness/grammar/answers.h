/* Answers in the making, for the files that make them. Internal to harness/grammar. */
#ifndef HARNESS_GRAMMAR_ANSWERS_H
#define HARNESS_GRAMMAR_ANSWERS_H

#include "harness/grammar/answer.h"

struct harness_answers {
    const struct harness_grammar_job *job;
    const struct harness_fault *fault;
    enum harness_grammar_place place;
    int64_t step; /* in which the fault fires; -1: in none */
    struct harness_answer *out;
    size_t count;
};

/* In the fault's step, of no bucket. */
void harness_answers_add(struct harness_answers *answers, enum harness_verdict verdict);
void harness_answers_add_at(struct harness_answers *answers, enum harness_verdict verdict,
                            int64_t step, int64_t bucket);
void harness_answers_add_diverged(struct harness_answers *answers);
/* In the fault's step. */
const struct harness_bucket *harness_answers_bucket(const struct harness_answers *answers,
                                                    uint64_t index);
const struct harness_bucket *harness_answers_bucket_of(const struct harness_answers *answers,
                                                       int64_t param);
bool harness_answers_is_regression(const struct harness_answers *answers);
/* The bucket's gradient is not all zero, whatever the data. */
bool harness_answers_is_sure(const struct harness_answers *answers,
                             const struct harness_bucket *bucket);
/* Some rank uses each of the elements of a bucket that the fault alters; or any of them all. */
bool harness_answers_is_used(const struct harness_answers *answers);
bool harness_answers_is_any_used(const struct harness_answers *answers);
/* A parameter's gradient that does not come, or is left out, or altered, where its bucket is
 * filled. */
void harness_answers_skip_param(struct harness_answers *answers);
void harness_answers_corrupt_fill(struct harness_answers *answers);
/* A rank that pauses and goes on, for less than any budget. */
void harness_answers_pause(struct harness_answers *answers, uint64_t pause_ms);
/* Of data that the fault alters. */
void harness_answers_corrupt(struct harness_answers *answers);

#endif
