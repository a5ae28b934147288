/* The environments of torchrun, mpirun, Slurm and PMI: parse them, and reach the store that they
 * name. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"
#include "ddpcore/store/node_list.h"
#include "ddpcore/store/store.h"

/* Variables that one kind of launcher sets; NULL: it has none for this. */
struct launcher {
    const char *name;
    const char *rank, *size, *local_rank;
    const char *local_size; /* equal to size: one host */
    const char *node_lists[2];
    const char *job;
    bool is_job_number;
};

static const struct launcher launchers[] = {
    {.name = "torchrun", .rank = "RANK", .size = "WORLD_SIZE", .local_rank = "LOCAL_RANK"},
    {.name = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .job = "PMIX_NAMESPACE"},
    {.name = "Slurm",
     .rank = "SLURM_PROCID",
     .size = "SLURM_NTASKS",
     .local_rank = "SLURM_LOCALID",
     .node_lists = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"},
     .job = "SLURM_JOB_ID",
     .is_job_number = true},
    {.name = "PMI",
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .local_size = "MPI_LOCALNRANKS",
     .job = "PMI_JOBID"},
};
#define LAUNCHER_COUNT (sizeof(launchers) / sizeof(launchers[0]))

struct source {
    const char *(*lookup)(void *context, const char *name);
    void *context;
    const struct launcher *launcher;
    struct ddp_err *err;
};

/* NULL unless set to something. */
static const char *text_of(const struct source *source, const char *name)
{
    const char *text = name != NULL ? source->lookup(source->context, name) : NULL;

    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Whose environment this is; NULL: nobody's, and why_no_launcher says so. */
static const struct launcher *find_launcher(const struct source *source)
{
    for (size_t i = 0; i < LAUNCHER_COUNT; i++) {
        if (text_of(source, launchers[i].rank) != NULL &&
            text_of(source, launchers[i].size) != NULL) {
            return &launchers[i];
        }
    }
    return NULL;
}

static ddp_status why_no_launcher(const struct source *source)
{
    for (size_t i = 0; i < LAUNCHER_COUNT; i++) {
        const struct launcher *half = &launchers[i];
        bool has_rank = text_of(source, half->rank) != NULL;
        bool has_size = text_of(source, half->size) != NULL;

        if (has_rank || has_size) {
            return ddp_err_set(source->err, DDP_E_NOT_FOUND, "%s is not set (%s), but %s is",
                               has_rank ? half->size : half->rank, half->name,
                               has_rank ? half->rank : half->size);
        }
    }
    return ddp_err_set(source->err, DDP_E_NOT_FOUND,
                       "RANK and WORLD_SIZE are not set, nor their like of mpirun, Slurm or PMI; "
                       "start this process with torchrun, mpirun or srun, or set RANK, WORLD_SIZE, "
                       "MASTER_ADDR and MASTER_PORT");
}

static ddp_status get_number(const struct source *source, const char *name, uint64_t least,
                             uint64_t limit, uint32_t *out)
{
    const char *text = text_of(source, name);
    uint64_t value;

    if (text == NULL) {
        return ddp_err_set(source->err, DDP_E_NOT_FOUND, "%s is not set (%s)", name,
                           source->launcher->name);
    }
    DDP_ASSERT(least <= limit && limit <= UINT32_MAX);
    if (ddp_text_parse_u64(text, &value) != DDP_OK || value < least || value > limit) {
        return ddp_err_set(
            source->err, DDP_E_PARSE, "%s=%.64s (%s) is not a number from %llu to %llu", name, text,
            source->launcher->name, (unsigned long long)least, (unsigned long long)limit);
    }
    *out = (uint32_t)value;
    return DDP_OK;
}

static ddp_status get_identity(const struct source *source, struct ddp_rendezvous *out)
{
    const struct launcher *launcher = source->launcher;

    DDP_ASSERT(launcher != NULL);
    DDP_TRY(get_number(source, launcher->rank, 0, INT32_MAX, &out->rank));
    DDP_TRY(get_number(source, launcher->size, 0, INT32_MAX, &out->world_size));
    out->local_rank = out->rank;
    if (text_of(source, launcher->local_rank) != NULL) {
        DDP_TRY(get_number(source, launcher->local_rank, 0, INT32_MAX, &out->local_rank));
    }
    if (out->rank >= out->world_size) {
        return ddp_err_set(source->err, DDP_E_PARSE, "%s=%u (%s) is not below %s=%u",
                           launcher->rank, out->rank, launcher->name, launcher->size,
                           out->world_size);
    }
    return DDP_OK;
}

static ddp_status put_address(const struct source *source, const char *text,
                              struct ddp_rendezvous *out)
{
    if (strlen(text) >= sizeof(out->master_addr)) {
        return ddp_err_set(source->err, DDP_E_PARSE, "MASTER_ADDR (%s) is longer than %zu bytes",
                           source->launcher->name, sizeof(out->master_addr) - 1);
    }
    (void)snprintf(out->master_addr, sizeof(out->master_addr), "%s", text);
    return DDP_OK;
}

static ddp_status get_first_host(const struct source *source, struct ddp_rendezvous *out)
{
    const struct launcher *launcher = source->launcher;
    const char *name = text_of(source, launcher->node_lists[0]) != NULL ? launcher->node_lists[0]
                                                                        : launcher->node_lists[1];
    const char *list = text_of(source, name);
    struct ddp_err err = {""};

    if (list == NULL) {
        return ddp_err_set(source->err, DDP_E_NOT_FOUND, "MASTER_ADDR, %s and %s are not set (%s)",
                           launcher->node_lists[0], launcher->node_lists[1], launcher->name);
    }
    if (ddp_node_list_first(list, out->master_addr, sizeof(out->master_addr), &err) != DDP_OK) {
        return ddp_err_set(source->err, DDP_E_PARSE, "%s (%s): %s", name, launcher->name, err.text);
    }
    return DDP_OK;
}

static ddp_status get_address(const struct source *source, struct ddp_rendezvous *out)
{
    const struct launcher *launcher = source->launcher;
    const char *text = text_of(source, "MASTER_ADDR");
    uint32_t local_size = 0;

    if (text != NULL) {
        return put_address(source, text, out);
    }
    if (launcher->node_lists[0] != NULL) {
        return get_first_host(source, out);
    }
    if (text_of(source, launcher->local_size) == NULL) {
        return ddp_err_set(source->err, DDP_E_NOT_FOUND, "MASTER_ADDR is not set (%s)%s%s",
                           launcher->name, launcher->local_size != NULL ? ", nor is " : "",
                           launcher->local_size != NULL ? launcher->local_size : "");
    }
    DDP_TRY(get_number(source, launcher->local_size, 1, INT32_MAX, &local_size));
    if (local_size != out->world_size) {
        return ddp_err_set(source->err, DDP_E_NOT_FOUND,
                           "MASTER_ADDR is not set, and %s=%u of %u ranks (%s) are on this host; "
                           "set it to the host of rank 0",
                           launcher->local_size, local_size, out->world_size, launcher->name);
    }
    return put_address(source, "127.0.0.1", out);
}

/* A port that all ranks of a job derive alike. */
static ddp_status derive_port(const struct source *source, uint16_t *out)
{
    const struct launcher *launcher = source->launcher;
    const char *job = text_of(source, launcher->job);
    uint64_t number;

    if (job == NULL) {
        return ddp_err_set(source->err, DDP_E_NOT_FOUND, "MASTER_PORT is not set (%s)%s%s",
                           launcher->name, launcher->job != NULL ? ", nor is " : "",
                           launcher->job != NULL ? launcher->job : "");
    }
    if (!launcher->is_job_number) {
        number = ddp_hash_text(job);
    } else if (ddp_text_parse_u64(job, &number) != DDP_OK) {
        return ddp_err_set(source->err, DDP_E_PARSE, "%s=%.64s (%s) is not a number", launcher->job,
                           job, launcher->name);
    }
    *out = (uint16_t)(DDP_RENDEZVOUS_PORT_FIRST + number % DDP_RENDEZVOUS_PORT_COUNT);
    return DDP_OK;
}

static ddp_status get_port(const struct source *source, struct ddp_rendezvous *out)
{
    uint32_t port = 0;

    if (text_of(source, "MASTER_PORT") == NULL) {
        return derive_port(source, &out->master_port);
    }
    DDP_TRY(get_number(source, "MASTER_PORT", 1, UINT16_MAX, &port));
    out->master_port = (uint16_t)port;
    return DDP_OK;
}

static bool is_true(const char *text)
{
    return text != NULL && (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

ddp_status ddp_rendezvous_parse(const char *(*lookup)(void *context, const char *name),
                                void *context, struct ddp_rendezvous *out, struct ddp_err *err)
{
    struct source source = {lookup, context, NULL, err};

    memset(out, 0, sizeof(*out));
    source.launcher = find_launcher(&source);
    if (source.launcher == NULL) {
        return why_no_launcher(&source);
    }
    out->source = source.launcher->name;
    DDP_TRY(get_identity(&source, out));
    DDP_TRY(get_address(&source, out));
    DDP_TRY(get_port(&source, out));
    out->is_agent_store = is_true(text_of(&source, "TORCHELASTIC_USE_AGENT_STORE"));
    return DDP_OK;
}

static ddp_status host_store(struct ddp_env *env, const struct ddp_rendezvous *rendezvous,
                             struct ddp_store **out, struct ddp_err *err)
{
    struct ddp_store_server *server;
    uint16_t port;
    int listen_fd;
    ddp_status status;

    DDP_TRY(
        ddp_store_listen(rendezvous->master_addr, rendezvous->master_port, &listen_fd, &port, err));
    status = ddp_store_server_create(env->mem, listen_fd, &server, err);
    if (status != DDP_OK) {
        (void)close(listen_fd);
        return status;
    }
    status = ddp_store_host_create(env, server, out);
    if (status != DDP_OK) {
        ddp_store_server_destroy(server);
        return ddp_err_set(err, status, "no memory for the store's host");
    }
    return DDP_OK;
}

ddp_status ddp_rendezvous_store(struct ddp_env *env, const struct ddp_rendezvous *rendezvous,
                                uint64_t deadline_ns, struct ddp_store **out, struct ddp_err *err)
{
    DDP_ASSERT(rendezvous->rank < rendezvous->world_size);
    if (rendezvous->rank == 0 && !rendezvous->is_agent_store) {
        return host_store(env, rendezvous, out, err);
    }
    return ddp_store_tcp_create(env, rendezvous->master_addr, rendezvous->master_port,
                                rendezvous->is_agent_store ? -1 : 0, deadline_ns, out, err);
}
