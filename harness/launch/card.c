#include "harness/launch/card.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/text.h"
#include "ddpcore/nccl/nccl.h"

/* From this version on NCCL itself allows several ranks on a card. */
#define NCCL_MULTI_RANK_VERSION 23003u

const char *harness_card_cublas_path(void)
{
    return getenv("DDPROVE_CUBLAS");
}

static const char *nccl_path(void)
{
    return getenv("DDPROVE_NCCL");
}

/* The card that entry `index` of CUDA_VISIBLE_DEVICES names; its own number if nothing is hidden.
 * The numbers in CTest's specification count the visible cards. Returns its length, 0 if there is
 * none. */
static size_t visible_card(const char *visible, const char *index, size_t index_size,
                           const char **out)
{
    uint64_t left = 0;

    *out = index;
    if (visible == NULL) {
        return index_size;
    }
    for (size_t i = 0; i < index_size; i++) {
        if (index[i] < '0' || index[i] > '9' || left > 255) {
            return 0;
        }
        left = 10 * left + (uint64_t)(index[i] - '0');
    }
    for (; left > 0; left--) {
        visible += strcspn(visible, ",");
        visible += *visible == ',' ? 1 : 0;
    }
    *out = visible;
    return strcspn(visible, ",");
}

/* "id:0,slots:1;id:3,slots:1" -> "0,3" */
static ddp_status read_group(const char *name, const char *text, const char *visible, char *cards,
                             size_t cards_size, struct ddp_err *err)
{
    const char *at = text;

    while (*at != '\0') {
        size_t size = strncmp(at, "id:", 3) == 0 ? strcspn(at + 3, ",") : 0;
        size_t used = strlen(cards);
        const char *card;

        if (size == 0) {
            return ddp_err_set(err, DDP_E_PARSE, "%s=%s is not CTest's id:<card>,slots:<n>;...",
                               name, text);
        }
        if (size == strlen(HARNESS_CARD_ABSENT) &&
            strncmp(at + 3, HARNESS_CARD_ABSENT, size) == 0) {
            at += strcspn(at, ";");
            at += *at == ';' ? 1 : 0;
            continue;
        }
        size = visible_card(visible, at + 3, size, &card);
        if (size == 0) {
            return ddp_err_set(err, DDP_E_PARSE,
                               "%s=%s names a card that CUDA_VISIBLE_DEVICES=%s hides; write the "
                               "specification anew by \"ddprove list resources\"",
                               name, text, visible);
        }
        if (used + size + 2 > cards_size) {
            return ddp_err_set(err, DDP_E_PARSE, "%s=%s: more cards than fit %zu characters", name,
                               text, cards_size);
        }
        (void)snprintf(cards + used, cards_size - used, "%s%.*s", used > 0 ? "," : "", (int)size,
                       card);
        at += strcspn(at, ";");
        at += *at == ';' ? 1 : 0;
    }
    return DDP_OK;
}

ddp_status harness_cards_from_ctest(struct ddp_err *err)
{
    const char *count_text = getenv("CTEST_RESOURCE_GROUP_COUNT");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    uint64_t count = 0;
    char cards[1024] = "";

    if (count_text == NULL) {
        return DDP_OK;
    }
    if (ddp_text_parse_u64(count_text, &count) != DDP_OK || count > 256) {
        return ddp_err_set(err, DDP_E_PARSE, "CTEST_RESOURCE_GROUP_COUNT=%s is no count",
                           count_text);
    }
    for (uint64_t i = 0; i < count; i++) {
        char name[64];
        const char *text;

        (void)snprintf(name, sizeof(name), "CTEST_RESOURCE_GROUP_%llu_GPUS", (unsigned long long)i);
        text = getenv(name);
        if (text != NULL) {
            DDP_TRY(read_group(name, text, visible, cards, sizeof(cards), err));
        }
    }
    /* Only once: children inherit CUDA_VISIBLE_DEVICES. */
    if (cards[0] != '\0' && (setenv("CUDA_VISIBLE_DEVICES", cards, 1) != 0 ||
                             unsetenv("CTEST_RESOURCE_GROUP_COUNT") != 0)) {
        return ddp_err_set(err, DDP_E_SYSTEM, "setenv: %s", strerror(errno));
    }
    return DDP_OK;
}

/* 0: there is none, and err has the reason. */
static uint32_t nccl_version(struct ddp_err *err)
{
    struct ddp_nccl_library *library;
    uint32_t version = 0;

    if (ddp_nccl_library_open(ddp_mem_system(), nccl_path(), &library, err) == DDP_OK) {
        version = ddp_nccl_library_version(library);
        ddp_nccl_library_close(library);
    }
    return version;
}

static void probe(struct harness_cards *out)
{
    struct ddp_err err = {{0}};

    memset(out, 0, sizeof(*out));
    if (ddp_device_cuda_query(0, &out->info, &err) == DDP_OK) {
        out->nccl_version = nccl_version(&err);
    }
    out->is_usable = out->nccl_version != 0;
    if (!out->is_usable) {
        (void)snprintf(out->reason, sizeof(out->reason), "%.*s", (int)sizeof(out->reason) - 1,
                       err.text);
    }
}

static bool write_all(int fd, const void *data, size_t size_bytes)
{
    const char *bytes = data;

    while (size_bytes > 0) {
        ssize_t count = write(fd, bytes, size_bytes);

        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        bytes += count;
        size_bytes -= (size_t)count;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t size_bytes)
{
    char *bytes = data;

    while (size_bytes > 0) {
        ssize_t count = read(fd, bytes, size_bytes);

        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        bytes += count;
        size_bytes -= (size_t)count;
    }
    return true;
}

ddp_status harness_cards_probe(struct harness_cards *out, struct ddp_err *err)
{
    struct harness_cards seen;
    int ends[2];
    int wait_status;
    bool is_read;
    pid_t pid;

    if (pipe(ends) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "looking for cards: pipe: %s", strerror(errno));
    }
    pid = fork();
    if (pid == 0) {
        probe(&seen);
        _exit(write_all(ends[1], &seen, sizeof(seen)) ? 0 : 1);
    }
    (void)close(ends[1]);
    is_read = pid > 0 && read_all(ends[0], out, sizeof(*out));
    (void)close(ends[0]);
    if (pid < 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "looking for cards: fork: %s", strerror(errno));
    }
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    if (!is_read) {
        memset(out, 0, sizeof(*out));
        (void)snprintf(out->reason, sizeof(out->reason), "looking for cards ended by %s %d",
                       WIFSIGNALED(wait_status) ? "signal" : "exit code",
                       WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    }
    return DDP_OK;
}

uint32_t harness_cards_needed(const struct harness_plan *plan)
{
    uint32_t sharing = plan->job.ranks_per_gpu == 0 ? 1 : plan->job.ranks_per_gpu;

    return harness_plan_is_cuda(plan) ? (plan->job.ranks + sharing - 1) / sharing : 0;
}

bool harness_cards_refuse(const struct harness_cards *cards, const struct harness_plan *plan,
                          char *reason, size_t reason_size)
{
    uint32_t sharing = plan->job.ranks_per_gpu == 0 ? 1 : plan->job.ranks_per_gpu;
    uint32_t needed = harness_cards_needed(plan);

    if (!cards->is_usable) {
        (void)snprintf(reason, reason_size, "%s", cards->reason);
        return true;
    }
    if (cards->info.card_count < needed) {
        (void)snprintf(reason, reason_size,
                       "%u ranks at %u a card need %u cards, there are %u; --ranks-per-gpu %u "
                       "shares them",
                       plan->job.ranks, sharing, needed, cards->info.card_count,
                       (plan->job.ranks + cards->info.card_count - 1) / cards->info.card_count);
        return true;
    }
    return false;
}

/* Settings for NCCL on any number of cards. A switch that computes sums (NVLS) chooses their order,
 * which may differ from one collective to the next, so a measured order would prove nothing. */
static const char *const every_card[][2] = {
    {"NCCL_NVLS_ENABLE", "0"},
    /* By default all streams share 8 hardware queues, and streams of one queue wait for each other.
     * With NCCL's own streams there are more than 8, and a kernel that does not end would hold up
     * unrelated streams. */
    {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};

/* NCCL treats ranks with different host ids as ranks of different hosts, and connects them by
 * sockets. Everything else that it might try is switched off by name. */
static const char *const shared_card[][2] = {{"NCCL_NET", "Socket"},
                                             {"NCCL_SOCKET_IFNAME", "=lo"},
                                             {"NCCL_IB_DISABLE", "1"},
                                             {"NCCL_MNNVL_ENABLE", "0"},
                                             {"NCCL_P2P_DISABLE", "1"},
                                             {"NCCL_SHM_DISABLE", "1"},
                                             {"NCCL_NET_PLUGIN", "none"},
                                             {"NCCL_TUNER_PLUGIN", "none"},
                                             {"NCCL_PROFILER_PLUGIN", "none"},
                                             {"NCCL_MAX_NCHANNELS", "2"},
                                             {"NCCL_RAS_ENABLE", "0"},
                                             {"NCCL_SOCKET_RETRY_CNT", "3"},
                                             {"NCCL_SOCKET_RETRY_SLEEP_MSEC", "50"},
                                             {"CUDA_MODULE_LOADING", "EAGER"}};

static ddp_status share_card(const struct ddp_rendezvous *rendezvous, struct ddp_err *err)
{
    const char *wanted = getenv("DDPROVE_ONE_GPU"); /* "hostid" or "official" */
    bool is_official = wanted != NULL ? strcmp(wanted, "official") == 0
                                      : nccl_version(err) >= NCCL_MULTI_RANK_VERSION;
    char host_id[96];
    int error = 0;

    if (is_official) {
        error = setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    } else {
        (void)snprintf(host_id, sizeof(host_id), "ddprove-%u-%u", rendezvous->master_port,
                       rendezvous->rank);
        error = setenv("NCCL_HOSTID", host_id, 1);
        for (size_t i = 0; i < sizeof(shared_card) / sizeof(shared_card[0]) && error == 0; i++) {
            error = setenv(shared_card[i][0], shared_card[i][1], 0);
        }
    }
    return error == 0 ? DDP_OK : ddp_err_set(err, DDP_E_SYSTEM, "setenv: %s", strerror(errno));
}

ddp_status harness_card_prepare(const struct harness_plan *plan,
                                const struct ddp_rendezvous *rendezvous,
                                struct harness_rank_options *options, struct ddp_err *err)
{
    uint32_t sharing = plan->job.ranks_per_gpu == 0 ? 1 : plan->job.ranks_per_gpu;
    int error;

    if (!harness_plan_is_cuda(plan)) {
        return DDP_OK;
    }
    options->card = rendezvous->local_rank / sharing;
    options->cublas_path = harness_card_cublas_path();
    options->nccl_path = nccl_path();
    /* With 1, calls of NCCL would wait for other ranks, and notice no death meanwhile. */
    error = setenv("NCCL_COMM_BLOCKING", "0", 1);
    for (size_t i = 0; i < sizeof(every_card) / sizeof(every_card[0]) && error == 0; i++) {
        error = setenv(every_card[i][0], every_card[i][1], 0);
    }
    if (error != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "setenv: %s", strerror(errno));
    }
    return sharing > 1 ? share_card(rendezvous, err) : DDP_OK;
}
