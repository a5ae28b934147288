/* A fault in the making. Internal to harness/grammar. */
#ifndef HARNESS_GRAMMAR_SITE_H
#define HARNESS_GRAMMAR_SITE_H

#include "harness/grammar/draw.h"
#include "harness/grammar/job.h"

struct harness_draw_site {
    struct harness_draw *draw;
    const struct harness_grammar_job *job;
    struct harness_fault *fault;
    enum harness_grammar_place place;
    uint32_t first_step, last_step; /* where it may lie */
    bool is_first;                  /* before it nothing is to fire */
    bool is_last;                   /* may end the job */
};

/* draw_action.c: what the action takes, once its place is known; false: nothing fits there. */
bool harness_draw_details(struct harness_draw_site *site);

/* A trigger without a place: of rank 0, the first time. */
struct harness_trigger harness_draw_anywhere(void);

/* Draw until a fault can be placed, and the model has an answer to it. */
bool harness_draw_fault(struct harness_draw_site *site);

#endif
