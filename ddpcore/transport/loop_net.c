/* The simulated network: groups, streams, store keys, deaths. Streams are made on first use,
 * because 1,024 ranks that each talk to ten others need ten thousand of them, not a million. */
#include "ddpcore/transport/loop_net.h"

#include <string.h>

#include "ddpcore/base/hash.h"

#define STREAMS_FIRST 8u

uint64_t ddp_loop_net_now_ns(const struct ddp_loop_net *net)
{
    return ddp_clock_now_ns(net->config.clock);
}

void ddp_loop_net_wake(struct ddp_loop_net *net, uint32_t rank, uint64_t at_ns)
{
    DDP_ASSERT(rank < net->config.world_size);
    if (!net->ranks[rank].is_dead) {
        net->config.wake(net->config.wake_context, rank, at_ns);
    }
}

bool ddp_loop_net_is_dead(const struct ddp_loop_net *net, uint32_t rank)
{
    const struct ddp_loop_rank *who = &net->ranks[rank];

    return who->is_dead && ddp_loop_net_now_ns(net) >= who->dead_ns + net->config.latency_ns;
}

ddp_status ddp_loop_net_create(const struct ddp_loop_config *config, struct ddp_loop_net **out)
{
    struct ddp_loop_net *net = ddp_mem_array(config->mem, 1, sizeof(*net));

    DDP_ASSERT(config->world_size > 0 && config->clock != NULL && config->wake != NULL);
    if (net == NULL) {
        return DDP_E_NOMEM;
    }
    net->config = *config;
    net->ranks = ddp_mem_array(config->mem, config->world_size, sizeof(*net->ranks));
    if (net->ranks == NULL) {
        ddp_mem_free(config->mem, net);
        return DDP_E_NOMEM;
    }
    *out = net;
    return DDP_OK;
}

static void free_stream(struct ddp_mem *mem, struct ddp_loop_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    for (uint32_t i = 0; i < DDP_LOOP_SLOT_COUNT; i++) {
        ddp_mem_free(mem, stream->slot[i].copy);
    }
    ddp_mem_free(mem, stream);
}

static void free_group(struct ddp_mem *mem, struct ddp_loop_group *group)
{
    for (uint32_t i = 0; group->members != NULL && i < group->member_count; i++) {
        struct ddp_loop_member *member = &group->members[i];

        for (uint32_t j = 0; j < member->stream_capacity; j++) {
            free_stream(mem, member->streams[j]);
        }
        ddp_mem_free(mem, member->streams);
    }
    ddp_mem_free(mem, group->members);
    ddp_mem_free(mem, group->member_rank);
    ddp_mem_free(mem, group->name);
    ddp_mem_free(mem, group);
}

static void free_key(struct ddp_mem *mem, struct ddp_loop_key *key)
{
    ddp_mem_free(mem, key->name);
    ddp_mem_free(mem, key->value);
    ddp_mem_free(mem, key->waiting);
    ddp_mem_free(mem, key);
}

void ddp_loop_net_destroy(struct ddp_loop_net *net)
{
    struct ddp_mem *mem;

    if (net == NULL) {
        return;
    }
    mem = net->config.mem;
    while (net->groups != NULL) {
        struct ddp_loop_group *gone = net->groups;

        net->groups = gone->next;
        free_group(mem, gone);
    }
    for (uint32_t i = 0; i < DDP_LOOP_KEY_CHAINS; i++) {
        while (net->keys[i] != NULL) {
            struct ddp_loop_key *gone = net->keys[i];

            net->keys[i] = gone->next;
            free_key(mem, gone);
        }
    }
    for (uint32_t i = 0; i < DDP_LOOP_POISONED_COUNT; i++) {
        ddp_mem_free(mem, net->poisoned[i]);
    }
    ddp_mem_free(mem, net->ranks);
    ddp_mem_free(mem, net);
}

struct ddp_loop_key *ddp_loop_net_key(struct ddp_loop_net *net, const char *name)
{
    struct ddp_mem *mem = net->config.mem;
    struct ddp_loop_key **first = &net->keys[ddp_hash_text(name) % DDP_LOOP_KEY_CHAINS];
    struct ddp_loop_key *key = *first;

    DDP_ASSERT(strlen(name) <= DDP_STORE_KEY_BYTES_MAX);
    while (key != NULL && strcmp(key->name, name) != 0) {
        key = key->next;
    }
    if (key != NULL) {
        return key;
    }
    key = ddp_mem_array(mem, 1, sizeof(*key));
    if (key == NULL) {
        return NULL;
    }
    key->name = ddp_mem_strdup(mem, name);
    key->waiting = ddp_mem_array(mem, (net->config.world_size + 63) / 64, sizeof(*key->waiting));
    if (key->name == NULL || key->waiting == NULL) {
        free_key(mem, key);
        return NULL;
    }
    key->next = *first;
    *first = key;
    return key;
}

struct ddp_loop_group *ddp_loop_net_group(struct ddp_loop_net *net, const char *name,
                                          uint32_t member_count, const uint32_t *member_rank)
{
    struct ddp_mem *mem = net->config.mem;
    struct ddp_loop_group *group = net->groups;

    DDP_ASSERT(member_count > 0 && member_count <= net->config.world_size);
    while (group != NULL && strcmp(group->name, name) != 0) {
        group = group->next;
    }
    if (group != NULL) {
        return group;
    }
    group = ddp_mem_array(mem, 1, sizeof(*group));
    if (group == NULL) {
        return NULL;
    }
    group->member_count = member_count;
    group->name = ddp_mem_strdup(mem, name);
    group->member_rank = ddp_mem_array(mem, member_count, sizeof(*group->member_rank));
    group->members = ddp_mem_array(mem, member_count, sizeof(*group->members));
    if (group->name == NULL || group->member_rank == NULL || group->members == NULL) {
        free_group(mem, group);
        return NULL;
    }
    for (uint32_t i = 0; i < member_count; i++) {
        group->member_rank[i] = member_rank == NULL ? i : member_rank[i];
        DDP_ASSERT(group->member_rank[i] < net->config.world_size);
    }
    group->next = net->groups;
    net->groups = group;
    return group;
}

/* The table's cell for a receiver: its stream, or the empty cell where it belongs. */
static struct ddp_loop_stream **find_cell(struct ddp_loop_stream **streams, uint32_t capacity,
                                          uint32_t to)
{
    /* 2654435769 is 2^32 / golden ratio: spreads receivers at distances 1, 2, 4, ... */
    uint32_t index = (to * UINT32_C(2654435769)) >> 7;

    DDP_ASSERT(capacity > 0 && (capacity & (capacity - 1)) == 0);
    while (streams[index & (capacity - 1)] != NULL && streams[index & (capacity - 1)]->to != to) {
        index++;
    }
    return &streams[index & (capacity - 1)];
}

/* Keep the table at most half full, so that every search ends at an empty cell. */
static bool reserve_cell(struct ddp_mem *mem, struct ddp_loop_member *member)
{
    uint32_t capacity = member->stream_capacity == 0 ? STREAMS_FIRST : member->stream_capacity * 2;
    struct ddp_loop_stream **streams;

    if (member->stream_count * 2 < member->stream_capacity) {
        return true;
    }
    streams = ddp_mem_array(mem, capacity, sizeof(struct ddp_loop_stream *));
    if (streams == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < member->stream_capacity; i++) {
        if (member->streams[i] != NULL) {
            *find_cell(streams, capacity, member->streams[i]->to) = member->streams[i];
        }
    }
    ddp_mem_free(mem, member->streams);
    member->streams = streams;
    member->stream_capacity = capacity;
    return true;
}

struct ddp_loop_stream *ddp_loop_group_stream(struct ddp_loop_net *net,
                                              struct ddp_loop_group *group, uint32_t from,
                                              uint32_t to, bool is_made)
{
    struct ddp_loop_member *member = &group->members[from];
    struct ddp_loop_stream *stream = NULL;
    struct ddp_prng all;

    if (member->stream_capacity > 0) {
        stream = *find_cell(member->streams, member->stream_capacity, to);
    }
    DDP_ASSERT(stream == NULL || (stream->from == from && stream->to == to));
    if (stream != NULL || !is_made || !reserve_cell(net->config.mem, member)) {
        return stream;
    }
    stream = ddp_mem_array(net->config.mem, 1, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->from = from;
    stream->to = to;
    all = ddp_prng_make(net->config.seed, "loop/jitter");
    all = ddp_prng_split(&all, ddp_hash_text(group->name));
    stream->jitter = ddp_prng_split(&all, ((uint64_t)from << 32) | to);
    *find_cell(member->streams, member->stream_capacity, to) = stream;
    member->stream_count++;
    DDP_ASSERT(member->stream_count <= member->stream_capacity);
    return stream;
}

void ddp_loop_net_poison(struct ddp_loop_net *net, void *copy, size_t size_bytes)
{
    void **place = &net->poisoned[net->poisoned_next++ % DDP_LOOP_POISONED_COUNT];

    memset(copy, DDP_LOOP_POISON, size_bytes);
    ddp_mem_free(net->config.mem, *place);
    *place = copy;
}

static void detach_stream(struct ddp_loop_stream *stream)
{
    DDP_ASSERT(stream->taken <= stream->sent &&
               stream->sent - stream->taken <= DDP_LOOP_SLOT_COUNT);
    for (uint64_t i = stream->taken; i < stream->sent; i++) {
        stream->slot[i % DDP_LOOP_SLOT_COUNT].lent = NULL;
    }
}

void ddp_loop_group_detach(struct ddp_loop_group *group, uint32_t member)
{
    struct ddp_loop_member *leaving = &group->members[member];

    DDP_ASSERT(member < group->member_count);
    for (uint32_t i = 0; i < leaving->stream_capacity; i++) {
        if (leaving->streams[i] != NULL) {
            detach_stream(leaving->streams[i]);
        }
    }
}

void ddp_loop_net_excuse(struct ddp_loop_net *net, uint32_t rank)
{
    DDP_ASSERT(rank < net->config.world_size && !net->ranks[rank].is_dead);
    net->ranks[rank].is_excused = true;
}

void ddp_loop_net_kill(struct ddp_loop_net *net, uint32_t rank)
{
    uint64_t known_ns;

    DDP_ASSERT(rank < net->config.world_size);
    if (net->ranks[rank].is_dead) {
        return;
    }
    for (struct ddp_loop_group *group = net->groups; group != NULL; group = group->next) {
        for (uint32_t i = 0; i < group->member_count; i++) {
            if (group->member_rank[i] == rank && group->members[i].is_joined) {
                ddp_loop_group_detach(group, i);
            }
        }
    }
    net->ranks[rank].is_dead = true;
    net->ranks[rank].dead_ns = ddp_loop_net_now_ns(net);
    net->dead_count++;
    DDP_ASSERT(net->dead_count <= net->config.world_size);
    known_ns = net->ranks[rank].dead_ns + net->config.latency_ns;
    for (uint32_t i = 0; i < net->config.world_size; i++) {
        ddp_loop_net_wake(net, i, known_ns);
    }
}
