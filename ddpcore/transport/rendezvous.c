/* torchrun's environment contract: parse it, and reach the store that it names. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ddpcore/base/text.h"
#include "ddpcore/transport/store.h"

struct source {
    const char *(*lookup)(void *context, const char *name);
    void *context;
    struct ddp_err *err;
};

static ddp_status get_text(const struct source *source, const char *name, const char **out)
{
    *out = source->lookup(source->context, name);
    if (*out == NULL || **out == '\0') {
        return ddp_err_set(source->err, DDP_E_NOT_FOUND,
                           "%s is not set (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are "
                           "needed; torchrun sets them)",
                           name);
    }
    return DDP_OK;
}

static ddp_status get_number(const struct source *source, const char *name, uint64_t limit,
                             uint64_t *out)
{
    const char *text;

    DDP_TRY(get_text(source, name, &text));
    if (ddp_text_parse_u64(text, out) != DDP_OK || *out > limit) {
        return ddp_err_set(source->err, DDP_E_PARSE, "%s=%s is not a number up to %llu", name, text,
                           (unsigned long long)limit);
    }
    return DDP_OK;
}

static bool is_true(const char *text)
{
    return text != NULL && (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

ddp_status ddp_rendezvous_parse(const char *(*lookup)(void *context, const char *name),
                                void *context, struct ddp_rendezvous *out, struct ddp_err *err)
{
    const struct source source = {lookup, context, err};
    const char *address;
    uint64_t rank, world_size, local_rank, port;

    memset(out, 0, sizeof(*out));
    DDP_TRY(get_number(&source, "RANK", INT32_MAX, &rank));
    DDP_TRY(get_number(&source, "WORLD_SIZE", INT32_MAX, &world_size));
    DDP_TRY(get_text(&source, "MASTER_ADDR", &address));
    DDP_TRY(get_number(&source, "MASTER_PORT", UINT16_MAX, &port));
    local_rank = rank;
    if (lookup(context, "LOCAL_RANK") != NULL) {
        DDP_TRY(get_number(&source, "LOCAL_RANK", INT32_MAX, &local_rank));
    }
    if (rank >= world_size) {
        return ddp_err_set(err, DDP_E_PARSE, "RANK=%llu is not below WORLD_SIZE=%llu",
                           (unsigned long long)rank, (unsigned long long)world_size);
    }
    if (strlen(address) >= sizeof(out->master_addr)) {
        return ddp_err_set(err, DDP_E_PARSE, "MASTER_ADDR is longer than %zu bytes",
                           sizeof(out->master_addr) - 1);
    }
    out->rank = (uint32_t)rank;
    out->world_size = (uint32_t)world_size;
    out->local_rank = (uint32_t)local_rank;
    out->master_port = (uint16_t)port;
    (void)snprintf(out->master_addr, sizeof(out->master_addr), "%s", address);
    out->is_agent_store = is_true(lookup(context, "TORCHELASTIC_USE_AGENT_STORE"));
    return DDP_OK;
}

ddp_status ddp_rendezvous_store(struct ddp_env *env, const struct ddp_rendezvous *rendezvous,
                                uint64_t deadline_ns, struct ddp_store **out, struct ddp_err *err)
{
    struct ddp_store_server *server = NULL;
    ddp_status status;

    if (rendezvous->rank == 0 && !rendezvous->is_agent_store) {
        uint16_t port;
        int listen_fd;

        DDP_TRY(ddp_store_listen(rendezvous->master_addr, rendezvous->master_port, &listen_fd,
                                 &port, err));
        status = ddp_store_server_create(env->mem, listen_fd, &server, err);
        if (status != DDP_OK) {
            (void)close(listen_fd);
            return status;
        }
    }
    status = ddp_store_tcp_create(env, rendezvous->master_addr, rendezvous->master_port, server,
                                  deadline_ns, out, err);
    if (status != DDP_OK) {
        ddp_store_server_destroy(server);
    }
    return status;
}
