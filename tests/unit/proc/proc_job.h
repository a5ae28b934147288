/* A small job for tests of the proc driver: the simulator's, run by real processes. */
#ifndef TESTS_UNIT_PROC_PROC_JOB_H
#define TESTS_UNIT_PROC_PROC_JOB_H

#include "tests/unit/sim/sim_job.h"

struct proc_test {
    struct sim_job job; /* plan, program and trace as for the simulator */
    char dir[64];       /* the run's folder, removed by _fini */
};

void proc_test_init(struct proc_test *test, uint32_t ranks);
/* Run the plan with the proc driver; the trace is in job.trace. */
ddp_status proc_test_run(struct proc_test *test);
void proc_test_fini(struct proc_test *test);
/* The run's only diagnosis, or NULL after a noted failure. */
const struct harness_finding *proc_test_only(const struct proc_test *test,
                                             enum harness_verdict verdict);
/* Nothing was left behind, no evidence was lost. */
void proc_test_check_clean(const struct proc_test *test);

#endif
