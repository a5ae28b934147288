/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Ranks as processes, on one card: told apart by NCCL_HOSTID, as with NCCL itself. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/standin/nccl/functions.h"

#define RANKS_MAX   4
#define DEADLINE_MS 40000

extern char **environ;

struct child {
    pid_t pid;
    int to_fd, from_fd;
};

struct team {
    int count;
    bool is_one_host;
    char id_text[2 * STANDIN_ID_BYTES + 1];
    struct child child[RANKS_MAX];
};

static void team_init(struct team *team, int count)
{
    struct standin_id id;
    memset(team, 0, sizeof *team);
    team->count = count;
    CT_CHECK_EQ_I64(ncclGetUniqueId(&id), STANDIN_SUCCESS);
    for (size_t i = 0; i < sizeof id.internal; i++) {
        (void)snprintf(team->id_text + 2 * i, 3, "%02x", (unsigned char)id.internal[i]);
    }
}

/* steps: NULL asks the process for a new id. */
static bool spawn(struct team *team, int rank, const char *steps)
{
    int to[2], from[2];
    char rank_text[16], count_text[16], host_text[40];
    (void)snprintf(rank_text, sizeof rank_text, "%d", rank);
    (void)snprintf(count_text, sizeof count_text, "%d", team->count);
    (void)snprintf(host_text, sizeof host_text, "host-%d", team->is_one_host ? 0 : rank);
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 ||
        setenv("NCCL_HOSTID", host_text, 1) != 0) {
        return false;
    }
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    char program[] = NCCL_STANDIN_RANK;
    char steps_text[16];
    (void)snprintf(steps_text, sizeof steps_text, "%s", steps == NULL ? "" : steps);
    char *arguments[] = {
        program, steps == NULL ? NULL : team->id_text, rank_text, count_text, steps_text, NULL};
    struct child *child = &team->child[rank];
    int error = posix_spawn(&child->pid, program, &actions, NULL, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)unsetenv("NCCL_HOSTID");
    (void)close(to[0]);
    (void)close(from[1]);
    child->to_fd = to[1];
    child->from_fd = from[0];
    if (error != 0) {
        child->pid = 0;
    }
    return error == 0;
}

/* The next line the rank says, without its end. */
static void read_line(struct team *team, int rank, char *line, size_t size_bytes)
{
    size_t length = 0;
    struct pollfd entry = {.fd = team->child[rank].from_fd, .events = POLLIN};
    while (length + 1 < size_bytes && poll(&entry, 1, DEADLINE_MS) > 0 &&
           read(entry.fd, line + length, 1) == 1 && line[length] != '\n') {
        length++;
    }
    line[length] = '\0';
}

static bool expect_line(struct team *team, int rank, const char *expected)
{
    char line[600];
    read_line(team, rank, line, sizeof line);
    return ct_check_str(__FILE__, __LINE__, "what the rank says", line, expected);
}

static void tell(struct team *team, int rank)
{
    CT_CHECK(write(team->child[rank].to_fd, "go\n", 3) == 3);
}

/* Ends a rank with a signal that cannot be caught. */
static void end_rank(struct team *team, int rank)
{
    CT_CHECK(kill(team->child[rank].pid, SIGKILL) == 0);
    CT_CHECK(waitpid(team->child[rank].pid, NULL, 0) == team->child[rank].pid);
    team->child[rank].pid = 0;
}

static void start_all(struct team *team, const char *steps)
{
    for (int rank = 0; rank < team->count; rank++) {
        CT_CHECK(spawn(team, rank, steps));
    }
}

/* The ranks below count end well, leaks included where a sanitizer looks; the others are ended. */
static void finish(struct team *team, int count)
{
    for (int rank = 0; rank < team->count; rank++) {
        struct child *child = &team->child[rank];
        int status = 0;
        if (child->pid > 0) {
            bool is_well = rank < count && expect_line(team, rank, "ok");
            if (!is_well) {
                (void)kill(child->pid, SIGKILL);
            }
            CT_CHECK(waitpid(child->pid, &status, 0) == child->pid);
            CT_CHECK(!is_well || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        }
        if (child->from_fd > 0) {
            (void)close(child->to_fd);
            (void)close(child->from_fd);
        }
        memset(child, 0, sizeof *child);
    }
}

CT_TEST(nccl_standin_processes, collectives)
{
    for (int count = 2; count <= RANKS_MAX; count++) {
        struct team team;
        team_init(&team, count);
        start_all(&team, "icf");
        finish(&team, count);
    }
}

CT_TEST(nccl_standin_processes, one_card_twice_is_refused)
{
    struct team team;
    team_init(&team, 2);
    team.is_one_host = true;
    start_all(&team, "da");
    finish(&team, 2);
}

CT_TEST(nccl_standin_processes, killed_rank_is_a_remote_error)
{
    struct team team;
    team_init(&team, 3);
    start_all(&team, "iwpoena");
    for (int rank = 0; rank < 3; rank++) {
        CT_CHECK(expect_line(&team, rank, "ready"));
    }
    end_rank(&team, 2);
    tell(&team, 0);
    tell(&team, 1);
    finish(&team, 2);
}

CT_TEST(nccl_standin_processes, idle_survivors_of_a_killed_rank_shrink)
{
    struct team team;
    team_init(&team, 3);
    start_all(&team, "iwpscf");
    for (int rank = 0; rank < 3; rank++) {
        CT_CHECK(expect_line(&team, rank, "ready"));
    }
    end_rank(&team, 2);
    tell(&team, 0);
    tell(&team, 1);
    finish(&team, 2);
}

/* A stopped rank is noticed by nobody; work on the others hangs until they shrink without it. */
static void without_a_stopped_rank(const char *steps)
{
    struct team team;
    team_init(&team, 4);
    start_all(&team, steps);
    for (int rank = 0; rank < 4; rank++) {
        CT_CHECK(expect_line(&team, rank, "ready"));
    }
    CT_CHECK(kill(team.child[3].pid, SIGSTOP) == 0);
    for (int rank = 0; rank < 3; rank++) {
        tell(&team, rank);
    }
    for (int rank = 0; rank < 3; rank++) {
        CT_CHECK(expect_line(&team, rank, "ready"));
    }
    for (int rank = 0; rank < 3; rank++) {
        tell(&team, rank);
    }
    finish(&team, 3);
}

CT_TEST(nccl_standin_processes, stopped_rank_hangs_the_others_until_they_shrink)
{
    without_a_stopped_rank("iwpopscf");
}

CT_TEST(nccl_standin_processes, stopped_rank_hangs_the_others_until_they_revoke)
{
    without_a_stopped_rank("iwpoprscf");
}

/* The id's creator has to live until all have joined. */
CT_TEST(nccl_standin_processes, id_of_an_ended_process_leads_nowhere)
{
    struct team team;
    team_init(&team, 2);
    CT_CHECK(spawn(&team, 0, NULL));
    read_line(&team, 0, team.id_text, sizeof team.id_text);
    CT_CHECK_EQ_U64(strlen(team.id_text), sizeof team.id_text - 1);
    finish(&team, 0);
    CT_CHECK(setenv("NCCL_SOCKET_RETRY_CNT", "2", 1) == 0);
    CT_CHECK(setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "1", 1) == 0);
    team.count = 1;
    CT_CHECK(spawn(&team, 0, "ga"));
    CT_CHECK(unsetenv("NCCL_SOCKET_RETRY_CNT") == 0);
    CT_CHECK(unsetenv("NCCL_SOCKET_RETRY_SLEEP_MSEC") == 0);
    finish(&team, 1);
}
