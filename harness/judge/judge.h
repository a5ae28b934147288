/* The judge: findings x expectations -> outcome. No I/O, no arithmetic of its own. */
#ifndef HARNESS_JUDGE_JUDGE_H
#define HARNESS_JUDGE_JUDGE_H

#include "harness/verdict/verdict.h"

struct harness_plan;
struct harness_program;
struct harness_trace;

#ifdef __cplusplus
extern "C" {
#endif

/* Facts about the run that expectations speak of, gathered by the caller from traces. */
struct harness_judge_facts {
    /* Where causes are looked up: without them hardly anything explains anything. May be NULL. */
    const struct harness_program *program;
    const struct harness_trace *trace;
    const char *const *param_names;
    uint32_t param_count;
    const uint32_t *fired_count; /* [plan fault_count]: how often each fault fired */
    const char *const *unable; /* [plan fault_count]: why one could do nothing where it was to act;
                                * NULL: that is not known, or of all */
    const char *unsaid;        /* what a rank had to say and none did; NULL: nothing is missing */
    const char *said_instead;  /* "": nobody said anything */
    bool is_survivor_checked;  /* some rank outside the culprits exists */
    bool is_survivor_status_met; /* all survivors ended with the expected status */
    uint32_t survivor_rank;      /* the first that did not, otherwise */
    bool is_survivor_ended;      /* it ended by itself */
    ddp_status survivor_status;  /* with this */
    int64_t survivor_latency_ns; /* slowest survivor: fault -> rank.end; -1: all ended before it */
    int64_t continued_from_step; /* the first step that survivors did by themselves; -1: none */
    bool is_time_enforced;       /* sim, or --enforce-time */
    bool is_leak_process, is_leak_shm, is_leak_fd;
    bool is_restore_run;   /* a restore run took place */
    bool is_restore_equal; /* it ended bitwise as an uninterrupted run */
    bool is_damage_loaded; /* restore_verdict is not why a file was refused: it says what is wrong
                            * with one that ranks loaded */
    const char *leak_text;
    int64_t restored_from_step;           /* -1: nothing was loaded */
    const char *restore_text;             /* how restore_verdict is known; "" */
    enum harness_verdict restore_verdict; /* NONE, or why it was refused */
    struct harness_rank_set restore_culprits;
    enum harness_verdict restore_other; /* NONE, or what else was found in it and follows from
                                         * nothing; and its text */
    const char *restore_other_text;
};

struct harness_judgement {
    enum harness_outcome outcome;
    enum harness_verdict verdict; /* of the primary finding; NONE if there is none */
    int64_t primary;              /* index into findings, -1 */
    int64_t unexpected;           /* the first other one that follows from none and should not be
                                   * there, -1 */
    char reason[1024];            /* why not PASS: expected versus got, one sentence each */
};

/* Sorts findings, causes before what follows from them, and says of each what it follows from
 * (cause.h). Without a program and a trace, hardly anything does. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_judge_order(const struct harness_plan *plan,
                                            const struct harness_program *program,
                                            const struct harness_trace *trace,
                                            struct harness_findings *findings);
/* It follows from another one, or need not be accounted for. */
bool harness_judge_is_explained(const struct harness_findings *findings, size_t index);

/* Sorts the findings. The primary finding is one that follows from no other: the expected one if it
 * is among them, else the first. Findings that follow from another one (victims' time-outs after a
 * crash) are no reason to fail. */
void harness_judge(const struct harness_plan *plan, struct harness_findings *findings,
                   const struct harness_judge_facts *facts, struct harness_judgement *out);

#ifdef __cplusplus
}
#endif
#endif
