/* See the header. */
#include "tests/unit/world/world_ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"

static char rank_text[8], size_text[8], port_text[8];
static const char *refused; /* what every rank must be told; NULL: nobody is refused */

static const char *lookup(void *context, const char *name)
{
    static const char *const variables[][2] = {{"RANK", rank_text},
                                               {"WORLD_SIZE", size_text},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"MASTER_PORT", port_text},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

    (void)context;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (strcmp(name, variables[i][0]) == 0) {
            return variables[i][1];
        }
    }
    return NULL;
}

static void run_child(const struct plan *plan, uint32_t rank, const struct ddp_world_config *asked)
{
    struct ddp_world_config config = *asked;
    struct ddp_world world;
    struct ddp_err err = {{0}};
    int code;

    config.timeout_ns = config.timeout_ns != 0 ? config.timeout_ns : 20 * DDP_NS_PER_S;
    config.heap_bytes = config.heap_bytes != 0 ? config.heap_bytes : (size_t)1 << 20;
    (void)snprintf(rank_text, sizeof(rank_text), "%u", rank);
    if (ddp_world_open(&world, lookup, NULL, &config, &err) != DDP_OK) {
        (void)fprintf(stderr, "rank %u: %s\n", rank, err.text);
        _exit(refused != NULL && strstr(err.text, refused) != NULL ? 0 : 2);
    }
    code = refused == NULL ? plan->run(&world, plan) : 3;
    ddp_world_close(&world);
    _exit(code);
}

/* Serves the store until all ranks have ended. */
static void serve(struct ddp_store_server *server, const pid_t *pids, int *states, uint32_t count)
{
    uint32_t left = count;
    bool is_ended[RANKS_MAX] = {false};

    while (left > 0) {
        struct pollfd wait = {.fd = ddp_store_server_fd(server), .events = POLLIN};

        (void)poll(&wait, 1, 5);
        ddp_store_server_pump(server);
        for (uint32_t r = 0; r < count; r++) {
            if (!is_ended[r] && waitpid(pids[r], &states[r], WNOHANG) == pids[r]) {
                is_ended[r] = true;
                left--;
            }
        }
    }
}

void run_plan_in(const struct plan *plan, const struct ddp_world_config *config)
{
    struct ddp_store_server *server = NULL;
    struct ddp_err err = {{0}};
    pid_t pids[RANKS_MAX];
    int states[RANKS_MAX];
    uint16_t port = 0;
    int fd = -1;

    CT_REQUIRE(ddp_store_listen("127.0.0.1", 0, &fd, &port, &err) == DDP_OK);
    (void)snprintf(port_text, sizeof(port_text), "%u", port);
    (void)snprintf(size_text, sizeof(size_text), "%u", plan->world_size);
    for (uint32_t r = 0; r < plan->world_size; r++) {
        pids[r] = fork();
        CT_REQUIRE(pids[r] >= 0);
        if (pids[r] == 0) {
            (void)close(fd);
            run_child(plan, r, config);
        }
    }
    CT_REQUIRE(ddp_store_server_create(ddp_mem_system(), fd, &server, &err) == DDP_OK);
    serve(server, pids, states, plan->world_size);
    ddp_store_server_destroy(server);
    for (uint32_t r = 0; r < plan->world_size; r++) {
        if ((plan->dying >> r & 1) != 0) {
            CT_CHECK(WIFSIGNALED(states[r]) && WTERMSIG(states[r]) == SIGKILL);
        } else {
            CT_CHECK(WIFEXITED(states[r]) && WEXITSTATUS(states[r]) == 0);
        }
    }
}

void run_plan(const struct plan *plan)
{
    run_plan_in(plan, &(struct ddp_world_config){0});
}

void run_plan_over(const struct plan *plan, enum ddp_world_transport transport)
{
    run_plan_in(plan, &(struct ddp_world_config){.transport = transport});
}

void refuse_world(uint32_t world_size, const char *word, const struct ddp_world_config *config)
{
    refused = word;
    run_plan_in(&(struct plan){.world_size = world_size}, config);
    refused = NULL;
}
