/* A loader: the batches of a rank's samples, in the sampler's order, read ahead by worker threads.
 *
 * Workers change when a batch is read, never which one comes next. A run can be stopped in the
 * middle of an epoch and go on from there, also with another number of ranks: what all ranks
 * together have used is a prefix of the epoch's list, and a sampler deals out the rest (sampler.h,
 * `first`). That holds while all ranks take equally large batches, as many of them. */
#ifndef DDPCORE_DDP_LOADER_H
#define DDPCORE_DDP_LOADER_H

#include "ddpcore/base/idle.h"
#include "ddpcore/ddp/sampler.h"
#include "ddpcore/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_loader_batch {
    uint64_t epoch, index; /* of the batch in this run's part of the epoch, from 0 */
    size_t rows;           /* 0: the epoch has ended, and the loader is not endless */
    const uint32_t *samples;
    void *data; /* slot_bytes; what read has put there */
};

struct ddp_loader_config {
    struct ddp_sampler_config sampler; /* its arrays are borrowed; `first` is of the first epoch */
    size_t batch_rows;
    size_t slot_count; /* batches in memory: the one that is in use, and those ahead; >= 2 */
    size_t slot_bytes;
    uint32_t worker_count;     /* 0: the caller's thread reads, in poll */
    bool is_endless;           /* an epoch follows the other by itself: no batch is without rows */
    struct ddp_device *device; /* slots are its page-locked host memory; NULL: of mem */
    /* Fills batch->data. Called by several workers at once, for different batches; may block, and
     * is not interrupted. A status other than OK is what the loader ends in; E_SYSTEM if the
     * worker's thread ends in there. */
    ddp_status (*read)(void *context, const struct ddp_loader_batch *batch);
    void *context;
};

struct ddp_loader;
/* Starts with that epoch. Errors: E_INVALID (no rows, fewer than two slots, no read, or the
 * sampler's), E_NOMEM, E_SYSTEM (no thread). */
DDP_MUST_USE ddp_status ddp_loader_create(struct ddp_mem *mem,
                                          const struct ddp_loader_config *config, uint64_t epoch,
                                          struct ddp_loader **out, struct ddp_err *err);
/* Ends the workers; waits for reads that have begun. */
void ddp_loader_destroy(struct ddp_loader *loader);
/* The next batch, if it has been read: DDP_PENDING else. The one before is given back by that. At
 * the end of the epoch *out has no rows, unless the loader is endless. Errors: read's, again each
 * time; of an endless loader E_INVALID, if this rank has no samples. */
DDP_MUST_USE ddp_status ddp_loader_poll(struct ddp_loader *loader, struct ddp_loader_batch *out);
/* The same, waiting in ddp_wait. Errors: E_TIMEOUT too. */
DDP_MUST_USE ddp_status ddp_loader_next(struct ddp_loader *loader, struct ddp_idle *idle,
                                        struct ddp_clock *clock, uint64_t deadline_ns,
                                        struct ddp_loader_batch *out);
/* Goes on with another epoch, whole. Errors: E_STATE (the present one has not ended), the
 * sampler's.
 */
DDP_MUST_USE ddp_status ddp_loader_epoch(struct ddp_loader *loader, uint64_t epoch);
/* The present epoch's, with what was used of it before this run as `first`. */
const struct ddp_sampler_config *ddp_loader_sampler(const struct ddp_loader *loader);
/* Batches of the present epoch that this run has. */
uint64_t ddp_loader_batch_count(const struct ddp_loader *loader);
/* After the batches that were given out so far: the last one counts as used. */
struct ddp_sampler_state ddp_loader_state(const struct ddp_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
