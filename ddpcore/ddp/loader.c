/* A ring of slots: batch k lies in slot k modulo their number. The lock guards the counters and
 * what slots say of themselves; a slot's data belong to the worker that reads it, then to the
 * caller. */
#include "ddpcore/ddp/loader.h"

#include <pthread.h>
#include <signal.h>

struct slot {
    void *data;
    uint64_t index; /* of the batch that was read into it */
    bool is_ready;
};

struct ddp_loader {
    struct ddp_mem *mem;
    struct ddp_loader_config config;
    uint64_t epoch;
    uint32_t *list;  /* [sample_count] where an epoch is shuffled */
    uint32_t *share; /* [whole_count] this rank's entries of the epoch */
    size_t share_count, whole_count;
    uint64_t batch_count;
    struct slot *slots;
    pthread_t *workers;
    uint32_t started; /* workers */
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* there may be something to read, or an end */
    bool is_locked_up;     /* lock and wanted exist */
    /* Under the lock. */
    uint64_t next;  /* batch to read */
    uint64_t given; /* batches handed out; the last of them is in use */
    bool is_ending;
    ddp_status status;
    uint32_t doorbell, doorbell_sleep;
};

static struct ddp_loader_batch batch_at(const struct ddp_loader *loader, uint64_t index)
{
    const size_t first = (size_t)index * loader->config.batch_rows;
    const size_t left = loader->share_count - first;

    DDP_ASSERT(index < loader->batch_count && first < loader->share_count);
    return (struct ddp_loader_batch){
        .epoch = loader->epoch,
        .index = index,
        .rows = left < loader->config.batch_rows ? left : loader->config.batch_rows,
        .samples = loader->share + first,
        .data = loader->slots[index % loader->config.slot_count].data};
}

/* Under the lock. The batch in use, if there is one, keeps its slot. */
static bool may_read(const struct ddp_loader *loader)
{
    const uint64_t kept = loader->given > 0 ? loader->given - 1 : 0;

    return loader->status == DDP_OK && loader->next < loader->batch_count &&
           loader->next < kept + loader->config.slot_count;
}

/* A worker that ends inside of its read leaves a batch that nobody reads any more. */
static void lose_worker(void *context)
{
    struct ddp_loader *loader = context;

    (void)pthread_mutex_lock(&loader->lock);
    loader->status = loader->status == DDP_OK ? DDP_E_SYSTEM : loader->status;
    ddp_doorbell_ring(&loader->doorbell, &loader->doorbell_sleep);
    (void)pthread_mutex_unlock(&loader->lock);
}

static void read_batch(struct ddp_loader *loader, const struct ddp_loader_batch *batch,
                       ddp_status *out)
{
    pthread_cleanup_push(lose_worker, loader);
    *out = loader->config.read(loader->config.context, batch);
    pthread_cleanup_pop(0);
}

/* Under the lock, which is let go meanwhile. */
static void read_next(struct ddp_loader *loader)
{
    const uint64_t index = loader->next++;
    const struct ddp_loader_batch batch = batch_at(loader, index);
    struct slot *slot = &loader->slots[index % loader->config.slot_count];
    ddp_status status;

    DDP_ASSERT(index >= loader->given && index < loader->given + loader->config.slot_count);
    slot->is_ready = false;
    (void)pthread_mutex_unlock(&loader->lock);
    read_batch(loader, &batch, &status);
    (void)pthread_mutex_lock(&loader->lock);
    slot->index = index;
    slot->is_ready = status == DDP_OK;
    loader->status = loader->status == DDP_OK ? status : loader->status;
    ddp_doorbell_ring(&loader->doorbell, &loader->doorbell_sleep);
}

static void *work(void *context)
{
    struct ddp_loader *loader = context;

    (void)pthread_mutex_lock(&loader->lock);
    while (!loader->is_ending) {
        if (may_read(loader)) {
            read_next(loader);
        } else {
            (void)pthread_cond_wait(&loader->wanted, &loader->lock);
        }
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* The share of an epoch, from entry `first` on. Nothing is being read. */
static ddp_status deal(struct ddp_loader *loader, uint64_t epoch, size_t first)
{
    struct ddp_sampler_config *sampler = &loader->config.sampler;

    sampler->first = first;
    DDP_TRY(ddp_sampler_deal(sampler, epoch, loader->list, loader->share));
    loader->share_count = ddp_sampler_count(sampler);
    DDP_ASSERT(loader->share_count <= loader->whole_count);
    loader->epoch = epoch;
    loader->batch_count =
        (loader->share_count + loader->config.batch_rows - 1) / loader->config.batch_rows;
    loader->next = 0;
    loader->given = 0;
    return DDP_OK;
}

/* Memory for whole epochs, so that none is needed later. */
static ddp_status make_lists(struct ddp_loader *loader)
{
    struct ddp_sampler_config whole = loader->config.sampler;

    if (whole.world_size == 0 || whole.rank >= whole.world_size ||
        whole.first > whole.sample_count || whole.sample_count > UINT32_MAX) {
        return DDP_E_INVALID;
    }
    whole.first = 0;
    loader->whole_count = ddp_sampler_count(&whole);
    loader->list = ddp_mem_array(loader->mem, whole.is_shuffled ? whole.sample_count : 0,
                                 sizeof(*loader->list));
    loader->share = ddp_mem_array(loader->mem, loader->whole_count, sizeof(*loader->share));
    return loader->list == NULL || loader->share == NULL ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status make_slots(struct ddp_loader *loader)
{
    struct ddp_device *device = loader->config.device;

    loader->slots = ddp_mem_array(loader->mem, loader->config.slot_count, sizeof(*loader->slots));
    for (size_t i = 0; loader->slots != NULL && i < loader->config.slot_count; i++) {
        void **data = &loader->slots[i].data;

        if (device != NULL) {
            DDP_TRY(device->ops->alloc(device, loader->config.slot_bytes, DDP_SPACE_HOST, data));
        } else {
            *data = ddp_mem_array(loader->mem, loader->config.slot_bytes, 1);
        }
        if (*data == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return loader->slots == NULL ? DDP_E_NOMEM : DDP_OK;
}

/* Signals are the caller's threads'. */
static ddp_status start_workers(struct ddp_loader *loader)
{
    sigset_t all;
    sigset_t before;
    int error = 0;

    loader->workers =
        ddp_mem_array(loader->mem, loader->config.worker_count, sizeof(*loader->workers));
    if (loader->workers == NULL) {
        return DDP_E_NOMEM;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (error == 0 && loader->started < loader->config.worker_count) {
        error = pthread_create(&loader->workers[loader->started], NULL, work, loader);
        loader->started += error == 0 ? 1 : 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? DDP_OK : DDP_E_SYSTEM;
}

static ddp_status open_loader(struct ddp_loader *loader, uint64_t epoch, struct ddp_err *err)
{
    ddp_status status;

    if (loader->config.batch_rows == 0 || loader->config.slot_count < 2 ||
        loader->config.read == NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "a loader needs rows, two slots and a way to read");
    }
    DDP_TRY(make_lists(loader));
    DDP_TRY(deal(loader, epoch, loader->config.sampler.first));
    DDP_TRY(make_slots(loader));
    if (pthread_mutex_init(&loader->lock, NULL) != 0) {
        return DDP_E_SYSTEM;
    }
    if (pthread_cond_init(&loader->wanted, NULL) != 0) {
        (void)pthread_mutex_destroy(&loader->lock);
        return DDP_E_SYSTEM;
    }
    loader->is_locked_up = true;
    status = start_workers(loader);
    return status == DDP_OK ? DDP_OK
                            : ddp_err_set(err, status, "a worker thread could not be started");
}

ddp_status ddp_loader_create(struct ddp_mem *mem, const struct ddp_loader_config *config,
                             uint64_t epoch, struct ddp_loader **out, struct ddp_err *err)
{
    struct ddp_loader *loader = ddp_mem_array(mem, 1, sizeof(*loader));
    ddp_status status;

    *out = NULL;
    if (loader == NULL) {
        return DDP_E_NOMEM;
    }
    loader->mem = mem;
    loader->config = *config;
    status = open_loader(loader, epoch, err);
    if (status != DDP_OK) {
        ddp_loader_destroy(loader);
        return status;
    }
    *out = loader;
    return DDP_OK;
}

static void end_workers(struct ddp_loader *loader)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->is_ending = true;
    (void)pthread_cond_broadcast(&loader->wanted);
    (void)pthread_mutex_unlock(&loader->lock);
    for (uint32_t i = 0; i < loader->started; i++) {
        (void)pthread_join(loader->workers[i], NULL);
    }
    (void)pthread_cond_destroy(&loader->wanted);
    (void)pthread_mutex_destroy(&loader->lock);
}

void ddp_loader_destroy(struct ddp_loader *loader)
{
    struct ddp_device *device;

    if (loader == NULL) {
        return;
    }
    device = loader->config.device;
    if (loader->is_locked_up) {
        end_workers(loader);
    }
    for (size_t i = 0; loader->slots != NULL && i < loader->config.slot_count; i++) {
        if (device != NULL) {
            device->ops->free(device, DDP_SPACE_HOST, loader->slots[i].data);
        } else {
            ddp_mem_free(loader->mem, loader->slots[i].data);
        }
    }
    ddp_mem_free(loader->mem, loader->slots);
    ddp_mem_free(loader->mem, loader->workers);
    ddp_mem_free(loader->mem, loader->share);
    ddp_mem_free(loader->mem, loader->list);
    ddp_mem_free(loader->mem, loader);
}

/* Under the lock. */
static ddp_status take(struct ddp_loader *loader, struct ddp_loader_batch *out)
{
    const struct slot *slot = &loader->slots[loader->given % loader->config.slot_count];

    if (loader->status != DDP_OK) {
        return loader->status;
    }
    if (loader->given == loader->batch_count) {
        *out = (struct ddp_loader_batch){.epoch = loader->epoch, .index = loader->given};
        return DDP_OK;
    }
    if (loader->next <= loader->given || !slot->is_ready || slot->index != loader->given) {
        return DDP_PENDING;
    }
    DDP_ASSERT(loader->given < loader->batch_count && loader->given < loader->next);
    *out = batch_at(loader, loader->given);
    loader->given++;
    (void)pthread_cond_broadcast(&loader->wanted); /* the slot before is free */
    return DDP_OK;
}

/* All batches were given out, so nobody reads. Under the lock. */
static void begin_next_epoch(struct ddp_loader *loader)
{
    if (loader->status != DDP_OK) {
        return;
    }
    loader->status = deal(loader, loader->epoch + 1, 0);
    if (loader->status == DDP_OK && loader->batch_count == 0) {
        loader->status = DDP_E_INVALID;
    }
    (void)pthread_cond_broadcast(&loader->wanted);
}

ddp_status ddp_loader_poll(struct ddp_loader *loader, struct ddp_loader_batch *out)
{
    ddp_status status;

    *out = (struct ddp_loader_batch){0};
    (void)pthread_mutex_lock(&loader->lock);
    if (loader->config.is_endless && loader->given == loader->batch_count) {
        begin_next_epoch(loader);
    }
    if (loader->config.worker_count == 0 && loader->next == loader->given && may_read(loader)) {
        read_next(loader);
    }
    status = take(loader, out);
    (void)pthread_mutex_unlock(&loader->lock);
    return status;
}

/* A wait for the next batch. */
struct next_wait {
    struct ddp_loader *loader;
    struct ddp_loader_batch *out;
};

static ddp_status poll_next(void *self)
{
    const struct next_wait *wait = self;

    return ddp_loader_poll(wait->loader, wait->out);
}

static void hint_next(void *self, struct ddp_idle_hint *hint)
{
    const struct next_wait *wait = self;

    hint->doorbell = &wait->loader->doorbell;
    hint->doorbell_sleep = &wait->loader->doorbell_sleep;
    hint->doorbell_seen = __atomic_load_n(&wait->loader->doorbell, __ATOMIC_ACQUIRE);
}

ddp_status ddp_loader_next(struct ddp_loader *loader, struct ddp_idle *idle,
                           struct ddp_clock *clock, uint64_t deadline_ns,
                           struct ddp_loader_batch *out)
{
    struct next_wait wait = {loader, out};
    const struct ddp_pollable pollable = {poll_next, hint_next, &wait};

    return ddp_wait(idle, clock, &pollable, deadline_ns);
}

ddp_status ddp_loader_epoch(struct ddp_loader *loader, uint64_t epoch)
{
    ddp_status status;

    (void)pthread_mutex_lock(&loader->lock);
    status = loader->status;
    if (status == DDP_OK) {
        /* All batches were given out, so nobody reads. */
        status = loader->given == loader->batch_count ? deal(loader, epoch, 0) : DDP_E_STATE;
        (void)pthread_cond_broadcast(&loader->wanted);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return status;
}

const struct ddp_sampler_config *ddp_loader_sampler(const struct ddp_loader *loader)
{
    return &loader->config.sampler;
}

uint64_t ddp_loader_batch_count(const struct ddp_loader *loader)
{
    return loader->batch_count;
}

struct ddp_sampler_state ddp_loader_state(const struct ddp_loader *loader)
{
    DDP_ASSERT(loader->given <= loader->batch_count);
    return ddp_sampler_state(&loader->config.sampler, loader->epoch,
                             loader->given * loader->config.batch_rows);
}
