/* Ranks of a guest for tests of who reads them: they write the arena as the guest library does, but
 * entry by entry. */
#ifndef TESTS_UNIT_WATCH_FAKE_RANK_H
#define TESTS_UNIT_WATCH_FAKE_RANK_H

#include "ddpcore/base/mem.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"
#include "harness/watch/arena.h"

struct fake_job {
    struct ddp_mem_pool *pool;
    struct harness_watch_arena arena;
    struct harness_watch watch;
    struct harness_findings findings;
    struct harness_watch_limits limits;
    uint64_t now_ns;
};

void fake_job_open(struct fake_job *job, uint32_t world_size, uint64_t ring_entry_count);
void fake_job_close(struct fake_job *job);
/* All ranks attach, run, and make the communicator 1, "world". */
void fake_job_begin(struct fake_job *job, uint32_t world_size);

/* An entry of the rank's ring. */
void fake_report(struct fake_job *job, uint32_t rank, enum guest_event event,
                 const uint64_t arg[GUEST_ARG_COUNT]);
void fake_attach(struct fake_job *job, uint32_t rank);
/* place: of the communicator in the rank's page; its handle is place + 1. */
void fake_comm(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key,
               uint32_t comm_rank, uint32_t size);
void fake_comm_of(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key,
                  uint32_t comm_rank, uint32_t size, enum guest_comm_kind kind);
/* Messages of a device with that rank of the communicator in place 0; end 0 sends them. */
void fake_pair(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key, uint32_t end,
               uint32_t peer);
void fake_comm_free(struct fake_job *job, uint32_t rank, uint32_t place, bool is_aborted);
void fake_step(struct fake_job *job, uint32_t rank, uint32_t step);
/* Of a sum of f32: the next call of the communicator. Returns its number. */
uint64_t fake_post(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t elem_count,
                   uint64_t bucket);
uint64_t fake_post_op(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t op,
                      uint64_t elem_count, uint64_t bucket);
/* What the data of a call come to, of one float: what goes in, or what comes out. */
void fake_value(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t seq, bool is_in,
                double value);
void fake_done(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t seq);
/* A thread waits in a call; seq 0: it waits no more. */
void fake_wait(struct fake_job *job, uint32_t rank, uint32_t thread, uint32_t place, uint64_t seq);
/* It asks for that once more, and may do other things in between. */
void fake_poll(struct fake_job *job, uint32_t rank, uint32_t thread, uint32_t place, uint64_t seq);
/* A communicator's lane on a stream; calls that go to it (lane: its place plus 1); how far the
 * stream is. */
void fake_lane(struct fake_job *job, uint32_t rank, uint32_t lane, uint32_t place, uint64_t stream);
void fake_launch(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t first, uint64_t last,
                 uint64_t lane);
void fake_reach(struct fake_job *job, uint32_t rank, uint32_t lane, uint64_t begun, uint64_t ended);
/* A thread waits for ranks of the communicator in place 0; 0: it did, and has what it waited for.
 */
void fake_message(struct fake_job *job, uint32_t rank, uint64_t what);
void fake_detach(struct fake_job *job, uint32_t rank);
void fake_state(struct fake_job *job, uint32_t rank, enum harness_watch_state state, int code);
/* Time passes, then everything is read and judged. Returns how many findings there are. */
size_t fake_look(struct fake_job *job, uint64_t later_ns);
/* The one finding there is, of this verdict and these culprits ("0,2"); else the test fails. */
const struct harness_finding *fake_only(const struct fake_job *job, enum harness_verdict verdict,
                                        const char *culprits);

#endif
