/* What the parts of the sweep over damaged records share: one run at a time, and its judgement. */
#ifndef TESTS_SUITE_EVIDENCE_H
#define TESTS_SUITE_EVIDENCE_H

#include "harness/cell/cell.h"

enum { PICKS = 3, PATH_BYTES = 1024 };

struct sweep {
    const char *out;
    bool is_verbose;
    size_t tried, failed;
    uint64_t random;
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    /* The run at hand. */
    const char *name;
    char run_dir[PATH_BYTES];
    char *text; /* its trace */
    bool is_canary;
};

enum way { DELETE_ALL, DELETE_ONE, DOUBLE_ONE, SWAP_ONE, ALTER_ONE, WAY_COUNT };
extern const char *const evidence_ways[WAY_COUNT];

void evidence_die(const char *what, const char *why);
uint64_t evidence_pick(struct sweep *sweep, uint64_t count);
/* Of the run's folder; valid until the next call. */
const char *evidence_path(const struct sweep *sweep, const char *name);
char *evidence_read(const struct sweep *sweep, const char *name, size_t *out_size);
void evidence_write(const struct sweep *sweep, const char *name, const char *text, size_t size);
/* The outcome of the run as it lies there. */
const char *evidence_judge(const struct sweep *sweep, char *reason, size_t reason_bytes);
/* The damage that lies there must be noticed; is_sealed: by the seals. */
void evidence_expect(struct sweep *sweep, const char *what, bool is_sealed);
/* The trace, and the trace as it would be if the recorder had written other events. */
void evidence_parse(struct sweep *sweep, struct harness_trace *out);
void evidence_reseal(struct sweep *sweep, struct harness_trace *trace);

/* Each damages one thing after the other and puts it back. */
void evidence_sweep_text(struct sweep *sweep);
void evidence_sweep_events(struct sweep *sweep);
void evidence_sweep_ends(struct sweep *sweep);

#endif
