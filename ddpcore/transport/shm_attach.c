/* Construction of the shm transport. Member 0 makes an anonymous segment and publishes where its
 * descriptor is; the others open it through /proc. A nonce in the segment catches a process number
 * that was reused in between. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ddpcore/transport/shm_endpoint.h"

#define HEAP_BYTES_DEFAULT ((size_t)64 << 20)
#define SLOT_COUNT_DEFAULT 16u

/* How long to wait for the store to name a dead rank: a launcher that hosts the store knows of a
 * death within milliseconds. */
#define DEATH_REPORT_NS DDP_NS_PER_S

/* What member 0 publishes. */
struct place {
    uint64_t pid;
    uint64_t nonce;
    uint64_t heap_bytes;
    uint32_t member_count;
    uint32_t slot_count;
    int32_t fd;
    uint32_t pad;
};

struct attach {
    struct ddp_shm_endpoint *endpoint;
    struct ddp_store *store;
    const struct ddp_shm_config *config;
    uint64_t deadline_ns;
    struct ddp_err *err;
    struct place place;
    int fd; /* of the segment, -1 if none */
};

static ddp_status system_error(struct attach *attach, const char *what)
{
    return ddp_err_set(attach->err, DDP_E_SYSTEM, "shared segment of %s: %s: %s",
                       attach->config->group_name, what, strerror(errno));
}

static ddp_status map_segment(struct attach *attach)
{
    const struct place *place = &attach->place;
    size_t size_bytes =
        ddp_shm_segment_size_bytes(place->member_count, place->slot_count, place->heap_bytes);
    struct stat info;
    void *base;

    DDP_ASSERT(attach->fd >= 0 && attach->endpoint->segment.base == NULL);
    if (fstat(attach->fd, &info) != 0) {
        return system_error(attach, "fstat");
    }
    if ((uint64_t)info.st_size != size_bytes) {
        return ddp_err_set(attach->err, DDP_E_SYSTEM, "shared segment of %s: not of this group",
                           attach->config->group_name);
    }
    base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, attach->fd, 0);
    if (base == MAP_FAILED) {
        return system_error(attach, "mmap");
    }
    ddp_shm_segment_view(&attach->endpoint->segment, base, place->member_count, place->slot_count,
                         place->heap_bytes);
    /* Large lent buffers need fewer address translations in huge pages; a refusal costs nothing. */
    (void)madvise(attach->endpoint->segment.base + attach->endpoint->segment.heap_first,
                  size_bytes - attach->endpoint->segment.heap_first, MADV_HUGEPAGE);
    return DDP_OK;
}

static uint32_t slot_count_of(const struct ddp_shm_config *config)
{
    uint32_t wanted = config->slot_count == 0 ? SLOT_COUNT_DEFAULT : config->slot_count;
    uint32_t count = 1;

    while (count < wanted && count < DDP_SHM_SLOTS_MAX) {
        count *= 2;
    }
    DDP_ASSERT((count & (count - 1)) == 0); /* rings take positions modulo it by a mask */
    return count;
}

/* How large a segment the members need. */
static ddp_status size_segment(struct attach *attach)
{
    const struct ddp_shm_config *config = attach->config;
    struct place *place = &attach->place;
    size_t heap_bytes = config->heap_bytes == 0 ? HEAP_BYTES_DEFAULT : config->heap_bytes;

    place->member_count = config->member_count;
    place->slot_count = slot_count_of(config);
    place->heap_bytes = (heap_bytes + 4095) & ~(size_t)4095;
    if (ddp_shm_segment_size_bytes(place->member_count, place->slot_count, place->heap_bytes) ==
        0) {
        return ddp_err_set(attach->err, DDP_E_INVALID,
                           "shared segment of %s: %u members, %u slots, %zu heap bytes: too much",
                           config->group_name, config->member_count, config->slot_count,
                           heap_bytes);
    }
    return DDP_OK;
}

static ddp_status make_segment(struct attach *attach)
{
    const struct ddp_shm_config *config = attach->config;
    struct place *place = &attach->place;
    size_t size_bytes =
        ddp_shm_segment_size_bytes(place->member_count, place->slot_count, place->heap_bytes);
    char key[DDP_STORE_KEY_BYTES_MAX];

    DDP_ASSERT(config->member == 0 && size_bytes > 0);
    place->pid = (uint64_t)getpid();
    if (getrandom(&place->nonce, sizeof(place->nonce), 0) != sizeof(place->nonce)) {
        return system_error(attach, "getrandom");
    }
    attach->fd = memfd_create("ddp-group", MFD_CLOEXEC);
    if (attach->fd < 0) {
        return system_error(attach, "memfd_create");
    }
    if (ftruncate(attach->fd, (off_t)size_bytes) != 0) {
        return system_error(attach, "ftruncate");
    }
    place->fd = attach->fd;
    DDP_TRY(map_segment(attach));
    ddp_shm_segment_format(&attach->endpoint->segment, place->nonce);
    (void)snprintf(key, sizeof(key), "%s/shm", config->group_name);
    return ddp_store_set(attach->endpoint->env, attach->store, key, place, sizeof(*place),
                         attach->deadline_ns);
}

/* Member 0 has ended after publishing. Either another member died first, which the store will say,
 * or member 0 is the one that died. Nobody sets the key that is waited for: the wait ends with the
 * store's report of a death, or in time. */
static ddp_status maker_is_gone(struct attach *attach)
{
    struct ddp_env *env = attach->endpoint->env;
    uint64_t patience_ns = ddp_clock_deadline_ns(env->clock, DEATH_REPORT_NS);
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;
    char key[DDP_STORE_KEY_BYTES_MAX];
    ddp_status status;

    (void)snprintf(key, sizeof(key), "%s/gone", attach->config->group_name);
    status = ddp_store_get(env, attach->store, key, value, &value_bytes,
                           patience_ns < attach->deadline_ns ? patience_ns : attach->deadline_ns);
    if (status != DDP_E_PEER_DIED) {
        attach->store->dead_rank =
            attach->config->member_rank != NULL ? (int32_t)attach->config->member_rank[0] : 0;
    }
    return ddp_err_set(attach->err, DDP_E_PEER_DIED,
                       "shared segment of %s: its maker, process %" PRIu64
                       ", has ended; rank %d is dead",
                       attach->config->group_name, attach->place.pid, attach->store->dead_rank);
}

static ddp_status open_segment(struct attach *attach)
{
    char key[DDP_STORE_KEY_BYTES_MAX];
    char path[64];
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;
    const struct ddp_shm_header *header;

    DDP_ASSERT(attach->config->member != 0);
    (void)snprintf(key, sizeof(key), "%s/shm", attach->config->group_name);
    DDP_TRY(ddp_store_get(attach->endpoint->env, attach->store, key, value, &value_bytes,
                          attach->deadline_ns));
    if (value_bytes != sizeof(attach->place)) {
        return ddp_err_set(attach->err, DDP_E_SYSTEM, "store key %s holds %zu bytes, not %zu", key,
                           value_bytes, sizeof(attach->place));
    }
    memcpy(&attach->place, value, sizeof(attach->place));
    DDP_ASSERT(attach->place.member_count == attach->config->member_count); /* enrolled */
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%d", attach->place.pid,
                   attach->place.fd);
    attach->fd = open(path, O_RDWR | O_CLOEXEC);
    if (attach->fd < 0) {
        return errno == ENOENT || errno == ESRCH ? maker_is_gone(attach)
                                                 : system_error(attach, path);
    }
    DDP_TRY(map_segment(attach));
    header = attach->endpoint->segment.header;
    if (__atomic_load_n(&header->magic, __ATOMIC_ACQUIRE) != DDP_SHM_MAGIC ||
        header->nonce != attach->place.nonce) {
        return ddp_err_set(attach->err, DDP_E_SYSTEM, "%s is not the segment of group %s", path,
                           attach->config->group_name);
    }
    return DDP_OK;
}

static ddp_status open_peers(struct attach *attach)
{
    struct ddp_shm_endpoint *endpoint = attach->endpoint;
    struct ddp_shm_segment *segment = &endpoint->segment;
    struct ddp_mem *mem = endpoint->env->mem;
    uint32_t own = endpoint->base.member;

    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        struct ddp_shm_peer *peer = &endpoint->peers[i];

        ddp_shm_sender_open(&peer->sender, segment, own, i);
        ddp_shm_receiver_open(&peer->receiver, segment, i, own);
        peer->staging = ddp_mem_array(mem, segment->slot_count, sizeof(*peer->staging));
        peer->is_copied = ddp_mem_array(mem, segment->slot_count, sizeof(*peer->is_copied));
        peer->apart = ddp_mem_array(mem, segment->slot_count, sizeof(*peer->apart));
        for (uint32_t k = 0; peer->apart != NULL && k < segment->slot_count; k++) {
            peer->apart[k] = -1;
        }
        if (peer->staging == NULL || peer->is_copied == NULL || peer->apart == NULL) {
            return ddp_err_set(attach->err, DDP_E_NOMEM, "no memory for a shared segment");
        }
    }
    DDP_ASSERT(segment->heap_first + (own + 1) * segment->heap_bytes <= segment->size_bytes);
    ddp_shm_heap_init(&endpoint->heap,
                      segment->base + segment->heap_first + own * segment->heap_bytes,
                      segment->heap_bytes);
    endpoint->own = &segment->members[own];
    endpoint->own->pid = (uint64_t)getpid();
    endpoint->has_attached = true;
    return DDP_OK;
}

/* A member that ended between attaching and this call is dead at once. */
static ddp_status watch_peers(struct attach *attach)
{
    struct ddp_shm_endpoint *endpoint = attach->endpoint;

    DDP_ASSERT(endpoint->has_attached);
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        struct pollfd *watched = &endpoint->pidfds[i];
        const struct ddp_shm_member *member = &endpoint->segment.members[i];

        if (i == endpoint->base.member) {
            continue;
        }
        watched->events = POLLIN;
        watched->fd = (int)syscall(SYS_pidfd_open, (pid_t)member->pid, 0);
        if (watched->fd >= 0) {
            continue;
        }
        if (errno != ESRCH) {
            return system_error(attach, "pidfd_open");
        }
        if (__atomic_load_n(&member->is_departed, __ATOMIC_ACQUIRE) == 0) {
            endpoint->peers[i].is_dead = true;
            endpoint->dead_peer = endpoint->dead_peer < 0 ? (int32_t)i : endpoint->dead_peer;
        }
    }
    return DDP_OK;
}

static ddp_status attach_all(struct attach *attach)
{
    struct ddp_shm_endpoint *endpoint = attach->endpoint;
    char name[DDP_STORE_KEY_BYTES_MAX];

    DDP_TRY(size_segment(attach));
    if (attach->config->member == 0) {
        DDP_TRY(make_segment(attach));
    } else {
        DDP_TRY(open_segment(attach));
    }
    DDP_TRY(open_peers(attach));
    (void)snprintf(name, sizeof(name), "%s/shm/attached", attach->config->group_name);
    DDP_TRY(ddp_store_barrier(endpoint->env, attach->store, name, attach->config->member_count,
                              attach->deadline_ns));
    return watch_peers(attach);
}

ddp_status ddp_shm_create(struct ddp_env *env, struct ddp_store *store,
                          const struct ddp_shm_config *config, uint64_t deadline_ns,
                          struct ddp_transport **out, struct ddp_err *err)
{
    struct ddp_err why = {""};
    struct attach attach = {
        .store = store, .config = config, .deadline_ns = deadline_ns, .err = &why, .fd = -1};
    struct ddp_shm_endpoint *endpoint;
    ddp_status status = DDP_E_NOMEM;

    if (config->member_count == 0 || config->member >= config->member_count ||
        strlen(config->group_name) + 32 > DDP_STORE_KEY_BYTES_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "group %s: member %u of %u", config->group_name,
                           config->member, config->member_count);
    }
    /* Before anything is sized by a count that may be wrong. */
    DDP_TRY(ddp_store_enroll(env, store, config->group_name, config->member, config->member_count,
                             deadline_ns, err));
    if (config->member_count > DDP_SHM_MEMBERS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "group %s: member %u of %u, at most %u in memory",
                           config->group_name, config->member, config->member_count,
                           DDP_SHM_MEMBERS_MAX);
    }
    endpoint = ddp_mem_array(env->mem, 1, sizeof(*endpoint));
    if (endpoint == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a shared segment");
    }
    attach.endpoint = endpoint;
    endpoint->env = env;
    endpoint->dead_peer = -1;
    endpoint->base.ops = &ddp_shm_ops;
    endpoint->base.member = config->member;
    endpoint->base.member_count = config->member_count;
    endpoint->peers = ddp_mem_array(env->mem, config->member_count, sizeof(*endpoint->peers));
    endpoint->pidfds = ddp_mem_array(env->mem, config->member_count, sizeof(*endpoint->pidfds));
    if (endpoint->peers != NULL && endpoint->pidfds != NULL) {
        for (uint32_t i = 0; i < config->member_count; i++) {
            endpoint->pidfds[i].fd = -1;
        }
        status = attach_all(&attach);
    }
    if (attach.fd >= 0) {
        (void)close(attach.fd);
    }
    if (status != DDP_OK) {
        ddp_shm_endpoint_destroy(endpoint);
        return ddp_err_set(err, status, "joining group %s: %s", config->group_name,
                           why.text[0] != '\0' ? why.text : ddp_store_error_text(store, status));
    }
    *out = &endpoint->base;
    return DDP_OK;
}
