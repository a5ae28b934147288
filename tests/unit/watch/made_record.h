/* Records of guests' jobs, made by hand, for tests of who prints, reads and concludes from them. */
#ifndef TESTS_UNIT_WATCH_MADE_RECORD_H
#define TESTS_UNIT_WATCH_MADE_RECORD_H

#include "harness/guest/ddprove_guest.h"
#include "harness/record/record.h"
#include "harness/watch/analyse.h"

struct made_record {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem; /* the pool's */
    struct harness_watch_record record;
};

/* A job that went well and posted nothing: all ranks attached, detached and ended with 0. */
void made_open(struct made_record *made, uint32_t world_size);
/* All that a record can say, in few lines. */
#define MADE_RICH_WORLD 3
void made_rich(struct made_record *made);
void made_close(struct made_record *made);
/* All ranks make a communicator and post so many sums of 10 f32 in it, one in each step, all done;
 * the n-th at n microseconds. Returns its index. */
size_t made_group(struct made_record *made, const char *name, uint64_t calls);
/* The rank never came to its last calls: so many are left. */
void made_cut(struct made_record *made, size_t group, uint32_t rank, uint64_t calls);
/* A rank that died by a signal: it has not detached. */
void made_kill(struct made_record *made, uint32_t rank, int signal_number);
/* The monitor's finding that this rank is wrong. It may be changed until the next one is added. */
struct harness_finding *made_finding(struct made_record *made, enum harness_verdict verdict,
                                     uint32_t culprit);
/* Its text; it lives as long as the record. */
const char *made_text(struct made_record *made, size_t *out_size_bytes);

#endif
