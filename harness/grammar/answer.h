/* What one fault must be found to do in a job, and an edited checkpoint in a run that loads it.
 * Internal to harness/grammar. */
#ifndef HARNESS_GRAMMAR_ANSWER_H
#define HARNESS_GRAMMAR_ANSWER_H

#include "harness/grammar/job.h"

enum { HARNESS_ANSWERS_MAX = 4 };

/* One right answer. NONE: nothing is to be found. */
struct harness_answer {
    enum harness_verdict verdict;
    int64_t step;   /* -1: any */
    int64_t bucket; /* -1: any */
};
/* All right answers; 0: the model has none, and such a fault is not drawn. The culprit is the
 * fault's rank in each. */
size_t harness_model_answers(const struct harness_grammar_job *job,
                             const struct harness_fault *fault,
                             struct harness_answer out[HARNESS_ANSWERS_MAX]);
/* With what the plan's restore run must refuse the checkpoint; NONE: it must load. */
enum harness_verdict harness_model_refusal(const struct harness_plan *plan);

#endif
