/* What all ranks must know alike before the first collective, through the store: the choices that
 * rank 0 has read, and who shares a host with whom. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/transport/tcp.h"
#include "ddpcore/world/connect.h"

#define TUNED_KEY "world/tuned"
enum { KEY_BYTES = 64 };

/* --- choices ---------------------------------------------------------------------------------- */

/* The text in parts that the store takes, behind its size in bytes; of an error: "-" and its words.
 */
static ddp_status publish(struct ddp_world *world, const char *text, uint64_t deadline_ns)
{
    const size_t size_bytes = strlen(text);
    char key[KEY_BYTES], size[24];

    (void)snprintf(size, sizeof(size), "%zu", size_bytes);
    DDP_TRY(ddp_store_set(&world->env, world->store, TUNED_KEY, size, strlen(size), deadline_ns));
    for (size_t at = 0; at < size_bytes; at += DDP_STORE_VALUE_BYTES_MAX) {
        const size_t left_bytes = size_bytes - at;

        (void)snprintf(key, sizeof(key), TUNED_KEY "/%zu", at);
        DDP_TRY(ddp_store_set(&world->env, world->store, key, text + at,
                              left_bytes < DDP_STORE_VALUE_BYTES_MAX ? left_bytes
                                                                     : DDP_STORE_VALUE_BYTES_MAX,
                              deadline_ns));
    }
    return DDP_OK;
}

static ddp_status read_first(struct ddp_world *world, uint64_t deadline_ns, struct ddp_err *err)
{
    char machine[sizeof(world->tuned->machine)];
    struct ddp_text text;
    ddp_status status;

    ddp_tuned_machine(machine, sizeof(machine));
    status =
        ddp_tuned_read(ddp_files_system(), world->config.tuned_path, machine, world->tuned, err);
    if (status != DDP_OK) {
        char words[sizeof(err->text) + 2];

        /* The others learn why, and none waits; whatever comes of telling them, this is the error.
         */
        (void)snprintf(words, sizeof(words), "-%s", err->text);
        (void)publish(world, words, deadline_ns);
        return status;
    }
    ddp_text_init(&text, world->env.mem);
    ddp_tuned_print(world->tuned, &text);
    status = !text.is_failed ? publish(world, ddp_text_str(&text), deadline_ns) : DDP_E_NOMEM;
    ddp_text_fini(&text);
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "handing out %s: %s", world->config.tuned_path,
                             ddp_store_error_text(world->store, status));
}

static ddp_status fetch(struct ddp_world *world, uint64_t deadline_ns, struct ddp_text *out)
{
    char value[DDP_STORE_VALUE_BYTES_MAX + 1], key[KEY_BYTES];
    size_t size_bytes = 0;
    uint64_t whole_bytes = 0;

    DDP_TRY(ddp_store_get(&world->env, world->store, TUNED_KEY, value, &size_bytes, deadline_ns));
    value[size_bytes] = '\0';
    DDP_TRY(ddp_text_parse_u64(value, &whole_bytes));
    for (uint64_t at = 0; at < whole_bytes; at += DDP_STORE_VALUE_BYTES_MAX) {
        (void)snprintf(key, sizeof(key), TUNED_KEY "/%" PRIu64, at);
        DDP_TRY(ddp_store_get(&world->env, world->store, key, value, &size_bytes, deadline_ns));
        ddp_text_add_bytes(out, value, size_bytes);
    }
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status read_others(struct ddp_world *world, uint64_t deadline_ns, struct ddp_err *err)
{
    struct ddp_text text;
    const char *words;
    ddp_status status;

    ddp_text_init(&text, world->env.mem);
    status = fetch(world, deadline_ns, &text);
    words = ddp_text_str(&text);
    if (status != DDP_OK) {
        status = ddp_err_set(err, status, "the choices that rank 0 hands out: %s",
                             ddp_store_error_text(world->store, status));
    } else if (words[0] == '-') {
        status = ddp_err_set(err, DDP_E_STATE, "rank 0: %s", words + 1);
    } else {
        status = ddp_tuned_parse(words, world->tuned, err);
    }
    ddp_text_fini(&text);
    return status;
}

ddp_status ddp_world_take_tuned(struct ddp_world *world, uint64_t deadline_ns, struct ddp_err *err)
{
    if (world->config.tuned_path == NULL) {
        return DDP_OK;
    }
    world->tuned = ddp_mem_array(world->env.mem, 1, sizeof(*world->tuned));
    if (world->tuned == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for choices of algorithms");
    }
    return world->where.rank == 0 ? read_first(world, deadline_ns, err)
                                  : read_others(world, deadline_ns, err);
}

/* --- nodes ------------------------------------------------------------------------------------ */

enum { ADDRESS_BYTES = 64 };

static bool is_wanted(const struct ddp_world_config *config)
{
    return config->transport == DDP_WORLD_TRANSPORT_TCP && config->node_of_rank == NULL &&
           config->algorithm == DDP_ALGORITHM_HIERARCHICAL;
}

static ddp_status exchange(struct ddp_world *world, char (*address)[ADDRESS_BYTES],
                           uint64_t deadline_ns)
{
    char value[DDP_STORE_VALUE_BYTES_MAX], key[KEY_BYTES];
    const uint32_t own = world->where.rank;
    size_t size_bytes = 0;

    (void)snprintf(key, sizeof(key), "world/host/%" PRIu32, own);
    DDP_TRY(ddp_store_set(&world->env, world->store, key, address[own], strlen(address[own]),
                          deadline_ns));
    for (uint32_t r = 0; r < world->where.world_size; r++) {
        (void)snprintf(key, sizeof(key), "world/host/%" PRIu32, r);
        DDP_TRY(ddp_store_get(&world->env, world->store, key, value, &size_bytes, deadline_ns));
        if (size_bytes >= ADDRESS_BYTES) {
            return DDP_E_PARSE;
        }
        memcpy(address[r], value, size_bytes);
        address[r][size_bytes] = '\0';
    }
    return DDP_OK;
}

static void number_nodes(char (*address)[ADDRESS_BYTES], uint32_t rank_count, size_t *node_of_rank)
{
    size_t node_count = 0;

    for (uint32_t r = 0; r < rank_count; r++) {
        uint32_t first = 0;

        while (strcmp(address[first], address[r]) != 0) {
            first++;
        }
        node_of_rank[r] = first < r ? node_of_rank[first] : node_count++;
    }
}

ddp_status ddp_world_find_nodes(struct ddp_world *world, uint64_t deadline_ns, struct ddp_err *err)
{
    char(*address)[ADDRESS_BYTES];
    ddp_status status;

    if (!is_wanted(&world->config)) {
        return DDP_OK;
    }
    address = ddp_mem_array(world->env.mem, world->where.world_size, sizeof(*address));
    world->node_of_rank =
        ddp_mem_array(world->env.mem, world->where.world_size, sizeof(*world->node_of_rank));
    if (address == NULL || world->node_of_rank == NULL) {
        status = ddp_err_set(err, DDP_E_NOMEM, "no memory for the nodes of ranks");
        goto out;
    }
    status = ddp_tcp_local_address(world->where.master_addr, world->where.master_port,
                                   address[world->where.rank], ADDRESS_BYTES, err);
    if (status != DDP_OK) {
        goto out;
    }
    status = exchange(world, address, deadline_ns);
    if (status != DDP_OK) {
        (void)ddp_err_set(err, status, "who shares a host: %s",
                          ddp_store_error_text(world->store, status));
        goto out;
    }
    number_nodes(address, world->where.world_size, world->node_of_rank);
out:
    ddp_mem_free(world->env.mem, address);
    return status;
}
