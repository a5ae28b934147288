/* Purpose: start the process of a plug-in, ask it, and say what became of it.
 * Idea: one question at a time over a socket, with a limit of time; the end of the stream means
 * that the process has ended, and how it ended is the answer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/mem.h"
#include "harness/plugin/wire.h"

#define ANSWER_NS (10 * DDP_NS_PER_S)
enum { FAILURES_MAX = 5, WORLD_MAX = 65536, END_MS = 1000, NODES_MAX = 64 };

struct harness_plugin {
    char *program, *path;
    struct harness_plugin_hello hello;
    pid_t pid; /* 0: none runs */
    int fd;
    unsigned failures; /* times that it ended or was ended */
    uint32_t op;       /* that one of the other form is asked for */
    struct ddprove_coll_step *steps;
    size_t step_capacity;
    struct ddprove_coll_question coming; /* what the next reply answers */
    uint32_t coming_nodes[NODES_MAX];    /* of its ranks, if it has nodes */
    uint32_t coming_end;                 /* and those behind it, up to this rank; 0: none comes */
};

/* --- the process ------------------------------------------------------------------------------ */

static int spawn(struct harness_plugin *plugin, int fd)
{
    char name[] = "ddprove";
    char command[] = "plugin";
    char *const argv[] = {name, command, plugin->path, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);

    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return error;
    }
    /* A group of its own, so that what it starts ends with it. Its stdout would mix with ours. */
    error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    error = error != 0 ? error : posix_spawnattr_setpgroup(&attributes, 0);
    error =
        error != 0 ? error : posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&files, 2, 1);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&files, fd, HARNESS_PLUGIN_FD);
    error = error != 0
                ? error
                : posix_spawn(&plugin->pid, plugin->program, &files, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Ends the process if it still runs; what is left of it is collected. Returns its wait status. */
static int end_process(struct harness_plugin *plugin)
{
    int status = 0;

    if (plugin->pid > 0) {
        (void)kill(-plugin->pid, SIGKILL);
        while (waitpid(plugin->pid, &status, 0) < 0 && errno == EINTR) {
        }
        (void)close(plugin->fd);
    }
    plugin->pid = 0;
    plugin->fd = -1;
    plugin->coming_end = 0;
    return status;
}

/* --- messages --------------------------------------------------------------------------------- */

enum outcome { ARRIVED, ENDED, LATE };

/* Waits until the socket can be read. */
static enum outcome wait_for_data(const struct harness_plugin *plugin, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd entry = {.fd = plugin->fd, .events = POLLIN};
        uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        int count;

        if (now_ns >= deadline_ns) {
            return LATE;
        }
        count = poll(&entry, 1, (int)((deadline_ns - now_ns) / DDP_NS_PER_MS) + 1);
        if (count > 0) {
            return ARRIVED; /* data, or the end of the stream, which recv tells */
        }
        if (count < 0 && errno != EINTR) {
            return ENDED;
        }
    }
}

static enum outcome receive(const struct harness_plugin *plugin, void *data, size_t size_bytes,
                            uint64_t deadline_ns)
{
    size_t got = 0;

    while (got < size_bytes) {
        enum outcome outcome = wait_for_data(plugin, deadline_ns);
        ssize_t count;

        if (outcome != ARRIVED) {
            return outcome;
        }
        count = recv(plugin->fd, (char *)data + got, size_bytes - got, 0);
        if (count == 0 || (count < 0 && errno != EINTR)) {
            return ENDED;
        }
        got += count > 0 ? (size_t)count : 0;
    }
    return ARRIVED;
}

static bool transmit(const struct harness_plugin *plugin, const void *data, size_t size_bytes)
{
    size_t sent = 0;

    while (sent < size_bytes) {
        ssize_t count =
            send(plugin->fd, (const char *)data + sent, size_bytes - sent, MSG_NOSIGNAL);

        if (count < 0 && errno != EINTR) {
            return false;
        }
        sent += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* Its end of the stream closes a moment before it can be waited for. False: it goes on running. */
static bool has_ended(const struct harness_plugin *plugin)
{
    struct pollfd entry = {.fd = (int)syscall(SYS_pidfd_open, plugin->pid, 0), .events = POLLIN};
    int count = 0;

    if (entry.fd >= 0) {
        do {
            count = poll(&entry, 1, END_MS);
        } while (count < 0 && errno == EINTR);
        (void)close(entry.fd);
    }
    return count > 0;
}

/* What the process did instead of answering. */
static ddp_status describe(struct harness_plugin *plugin, enum outcome outcome, const char *doing,
                           struct ddp_err *err)
{
    bool is_over = outcome == ENDED && has_ended(plugin);
    int status = end_process(plugin);

    /* What takes for ever once would do so again. */
    plugin->failures = outcome == LATE ? (unsigned)FAILURES_MAX : plugin->failures + 1;
    if (outcome == LATE) {
        return ddp_err_set(err, DDP_E_INVALID, "the plug-in did not end %s within %d s", doing,
                           (int)(ANSWER_NS / DDP_NS_PER_S));
    }
    if (!is_over) {
        return ddp_err_set(err, DDP_E_INVALID, "the plug-in wrote or closed what is not its own %s",
                           doing);
    }
    if (WIFSIGNALED(status)) {
        return ddp_err_set(err, DDP_E_INVALID, "the plug-in was ended by signal %d (%s) %s",
                           WTERMSIG(status), strsignal(WTERMSIG(status)), doing);
    }
    return ddp_err_set(err, DDP_E_INVALID, "the plug-in ended its process with code %d %s",
                       WEXITSTATUS(status), doing);
}

/* --- start ------------------------------------------------------------------------------------ */

static ddp_status start(struct harness_plugin *plugin, struct ddp_err *err)
{
    int pair[2];
    int error;
    enum outcome outcome;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return ddp_err_set(err, DDP_E_IO, "no socket: %s", strerror(errno));
    }
    /* dup2 onto itself would keep the flag that closes it. */
    if (pair[1] == HARNESS_PLUGIN_FD) {
        int swapped = pair[0];

        pair[0] = pair[1];
        pair[1] = swapped;
    }
    error = spawn(plugin, pair[1]);
    (void)close(pair[1]);
    if (error != 0) {
        (void)close(pair[0]);
        plugin->pid = 0;
        return ddp_err_set(err, DDP_E_IO, "%s cannot be started: %s", plugin->program,
                           strerror(error));
    }
    plugin->fd = pair[0];
    outcome = receive(plugin, &plugin->hello, sizeof plugin->hello,
                      ddp_clock_deadline_ns(ddp_clock_monotonic(), ANSWER_NS));
    if (outcome != ARRIVED || plugin->hello.magic != HARNESS_PLUGIN_MAGIC) {
        return describe(plugin, outcome, "while it was loaded", err);
    }
    plugin->hello.name[sizeof plugin->hello.name - 1] = '\0';
    plugin->hello.text[sizeof plugin->hello.text - 1] = '\0';
    if (plugin->hello.is_loaded != 1) {
        (void)end_process(plugin);
        return ddp_err_set(err, DDP_E_INVALID, "%s", plugin->hello.text);
    }
    return DDP_OK;
}

static ddp_status open_any(const char *program, const char *path, struct harness_plugin **out,
                           struct ddp_err *err)
{
    struct harness_plugin *plugin = ddp_mem_array(ddp_mem_system(), 1, sizeof(*plugin));
    ddp_status status = DDP_E_NOMEM;

    *out = NULL;
    if (plugin == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    }
    plugin->fd = -1;
    plugin->program = ddp_mem_strdup(ddp_mem_system(), program);
    plugin->path = ddp_mem_strdup(ddp_mem_system(), path);
    if (plugin->program != NULL && plugin->path != NULL) {
        status = start(plugin, err);
    } else {
        (void)ddp_err_set(err, status, "no memory");
    }
    if (status != DDP_OK) {
        harness_plugin_close(plugin);
        return status;
    }
    *out = plugin;
    return DDP_OK;
}

ddp_status harness_plugin_open(const char *program, const char *path, struct harness_plugin **out,
                               struct ddp_err *err)
{
    DDP_TRY(open_any(program, path, out, err));
    DDP_ASSERT(*out != NULL);
    if ((*out)->hello.is_opaque == 0) {
        return DDP_OK;
    }
    harness_plugin_close(*out);
    *out = NULL;
    return ddp_err_set(err, DDP_E_INVALID,
                       "%s moves the data itself (ddprove_coll_opaque_plugin), so it has no "
                       "schedules that could be looked at",
                       path);
}

ddp_status harness_plugin_describe(const char *program, const char *path,
                                   struct harness_plugin_about *out, struct ddp_err *err)
{
    struct harness_plugin *plugin = NULL;

    DDP_TRY(open_any(program, path, &plugin, err));
    DDP_ASSERT(plugin != NULL);
    *out = (struct harness_plugin_about){.kind = plugin->hello.kind,
                                         .claims = plugin->hello.claims,
                                         .needs = plugin->hello.needs,
                                         .is_opaque = plugin->hello.is_opaque != 0,
                                         .has_abort = plugin->hello.has_abort != 0};
    (void)snprintf(out->name, sizeof out->name, "%s", plugin->hello.name);
    harness_plugin_close(plugin);
    return DDP_OK;
}

void harness_plugin_close(struct harness_plugin *plugin)
{
    if (plugin != NULL) {
        (void)end_process(plugin);
        ddp_mem_free(ddp_mem_system(), plugin->steps);
        ddp_mem_free(ddp_mem_system(), plugin->program);
        ddp_mem_free(ddp_mem_system(), plugin->path);
        ddp_mem_free(ddp_mem_system(), plugin);
    }
}

const char *harness_plugin_name(const struct harness_plugin *plugin)
{
    return plugin->hello.name;
}

enum ddprove_coll_kind harness_plugin_kind(const struct harness_plugin *plugin)
{
    return (enum ddprove_coll_kind)plugin->hello.kind;
}

uint32_t harness_plugin_claims(const struct harness_plugin *plugin)
{
    return plugin->hello.claims;
}

/* --- questions -------------------------------------------------------------------------------- */

static ddp_status make_room(struct harness_plugin *plugin, size_t step_count)
{
    struct ddprove_coll_step *steps;

    if (step_count <= plugin->step_capacity) {
        return DDP_OK;
    }
    steps = ddp_mem_array(ddp_mem_system(), 2 * step_count, sizeof(*steps));
    if (steps == NULL) {
        return DDP_E_NOMEM;
    }
    ddp_mem_free(ddp_mem_system(), plugin->steps);
    plugin->steps = steps;
    plugin->step_capacity = 2 * step_count;
    return DDP_OK;
}

static ddp_status take_answer(struct harness_plugin *plugin, const char *doing,
                              struct harness_plugin_answer *out, struct ddp_err *err)
{
    uint64_t deadline_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), ANSWER_NS);
    struct harness_plugin_reply reply;
    enum outcome outcome = receive(plugin, &reply, sizeof reply, deadline_ns);

    if (outcome != ARRIVED || reply.magic != HARNESS_PLUGIN_MAGIC ||
        reply.step_count > HARNESS_PLUGIN_STEPS ||
        reply.scratch_count > HARNESS_PLUGIN_SCRATCH_MAX) {
        return describe(plugin, outcome, doing, err);
    }
    if (reply.is_answered != 1) {
        reply.text[sizeof reply.text - 1] = '\0';
        return ddp_err_set(err, DDP_E_INVALID, "%s", reply.text);
    }
    if (make_room(plugin, reply.step_count) != DDP_OK) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for %u steps", reply.step_count);
    }
    if (reply.step_count > 0) {
        outcome =
            receive(plugin, plugin->steps, reply.step_count * sizeof(*plugin->steps), deadline_ns);
    }
    if (outcome != ARRIVED) {
        return describe(plugin, outcome, doing, err);
    }
    *out = (struct harness_plugin_answer){.scratch_count = reply.scratch_count,
                                          .steps = plugin->steps,
                                          .step_count = reply.step_count,
                                          .leaked_bytes = reply.leaked_bytes,
                                          .is_refused = reply.is_refused != 0};
    memcpy(out->scratch, reply.scratch, sizeof out->scratch);
    return DDP_OK;
}

/* Whether it is what the next reply answers. */
static bool is_coming(const struct harness_plugin *plugin,
                      const struct ddprove_coll_question *question)
{
    const struct ddprove_coll_question *coming = &plugin->coming;

    return plugin->coming_end > 0 && question->rank == coming->rank &&
           question->size == coming->size && question->root == coming->root &&
           question->count == coming->count && question->segment == coming->segment &&
           question->is_in_place == coming->is_in_place && question->dtype == coming->dtype &&
           (question->node_of_rank == NULL) == (coming->node_of_rank == NULL) &&
           (question->node_of_rank == NULL || memcmp(question->node_of_rank, coming->node_of_rank,
                                                     question->size * sizeof(uint32_t)) == 0);
}

/* is_all: the replies for the ranks behind it come too, unasked. */
static ddp_status transmit_ask(struct harness_plugin *plugin,
                               const struct ddprove_coll_question *question, bool is_all,
                               const char *doing, struct ddp_err *err)
{
    struct harness_plugin_ask ask = {.magic = HARNESS_PLUGIN_MAGIC,
                                     .has_nodes = question->node_of_rank != NULL,
                                     .rank_end = is_all ? question->size : question->rank + 1,
                                     .question = *question,
                                     .op = plugin->op};
    bool is_sent;

    ask.question.struct_bytes = (uint32_t)sizeof ask.question;
    is_sent = transmit(plugin, &ask, sizeof ask) &&
              (ask.has_nodes == 0 ||
               transmit(plugin, question->node_of_rank, question->size * sizeof(uint32_t)));
    if (!is_sent) {
        return describe(plugin, ENDED, doing, err);
    }
    plugin->coming = *question;
    plugin->coming_end = ask.rank_end;
    if (question->node_of_rank != NULL && question->size <= NODES_MAX) {
        memcpy(plugin->coming_nodes, question->node_of_rank, question->size * sizeof(uint32_t));
        plugin->coming.node_of_rank = plugin->coming_nodes;
    }
    return DDP_OK;
}

/* The reply for the rank that is coming. */
static ddp_status take_next(struct harness_plugin *plugin, const char *doing,
                            struct harness_plugin_answer *out, struct ddp_err *err)
{
    ddp_status status = take_answer(plugin, doing, out, err);

    if (plugin->coming_end > 0 && ++plugin->coming.rank == plugin->coming_end) {
        plugin->coming_end = 0;
    }
    return status;
}

static ddp_status ask(struct harness_plugin *plugin, const struct ddprove_coll_question *question,
                      bool is_all, struct harness_plugin_answer *out, struct ddp_err *err)
{
    char doing[96];

    DDP_ASSERT(question->size >= 1 && question->size <= WORLD_MAX &&
               question->rank < question->size);
    if (plugin->pid == 0 && plugin->failures >= FAILURES_MAX) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "the plug-in is not asked again: it hung, or failed %d times",
                           FAILURES_MAX);
    }
    if (plugin->pid == 0) {
        DDP_TRY(start(plugin, err));
    }
    (void)snprintf(doing, sizeof doing, "while it was asked for rank %u of %u, %llu elements",
                   question->rank, question->size, (unsigned long long)question->count);
    if (!is_coming(plugin, question)) {
        while (plugin->pid != 0 && plugin->coming_end > 0) {
            /* Nobody wants it; what goes wrong meanwhile will again once it is asked for. */
            (void)take_next(plugin, doing, out, NULL);
        }
        if (plugin->pid == 0) {
            DDP_TRY(start(plugin, err));
        }
        DDP_TRY(transmit_ask(plugin, question, is_all, doing, err));
    }
    return take_next(plugin, doing, out, err);
}

ddp_status harness_plugin_ask(struct harness_plugin *plugin,
                              const struct ddprove_coll_question *question,
                              struct harness_plugin_answer *out, struct ddp_err *err)
{
    /* Who asks for rank 0 asks for the others next: so each case takes one change of processes. */
    bool is_all = question->rank == 0 &&
                  (question->node_of_rank == NULL || question->size <= (uint32_t)NODES_MAX);

    return ask(plugin, question, is_all, out, err);
}

ddp_status harness_plugin_ask_one(struct harness_plugin *plugin,
                                  const struct ddprove_coll_question *question,
                                  struct harness_plugin_answer *out, struct ddp_err *err)
{
    return ask(plugin, question, false, out, err);
}

bool harness_plugin_refuses(const char *program, const char *path, uint32_t op, uint32_t dtype)
{
    const struct ddprove_coll_question question = {.size = 1, .count = 1, .dtype = dtype};
    struct harness_plugin_answer answer = {.is_refused = false};
    struct harness_plugin *plugin = NULL;

    if (open_any(program, path, &plugin, NULL) != DDP_OK) {
        return false;
    }
    DDP_ASSERT(plugin != NULL);
    plugin->op = op;
    if (plugin->hello.is_opaque != 0 && (plugin->hello.needs & DDPROVE_COLL_BY_MPIRUN) == 0 &&
        ask(plugin, &question, false, &answer, NULL) != DDP_OK) {
        answer.is_refused = false;
    }
    harness_plugin_close(plugin);
    return answer.is_refused;
}
