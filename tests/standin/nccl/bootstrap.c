/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * How ranks find each other: a root thread of the process that made the id, then sockets between
 * all pairs. Follows bootstrap.cc, except that NCCL's data sockets form rings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tests/standin/nccl/internal.h"

struct root {
    int listen_fd;
    uint64_t magic;
    atomic_int is_stopping, is_done;
    struct standin_thread thread;
    /* Connections stay open until the process ends: a rank that a root gave up on waits for ever,
     * as in NCCL. */
    int *fd;
    struct root *next;
};

struct id_content {
    uint64_t magic;
    uint16_t port;
};

struct hello {
    uint64_t magic;
    struct standin_peer peer;
};

struct link_hello {
    uint64_t hash;
    int32_t rank;
    uint32_t is_control;
};

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct root *roots;

uint64_t standin_hash(uint64_t seed, const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;
    uint64_t hash = seed ^ 0xcbf29ce484222325ull;
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    }
    return hash;
}

static pthread_once_t host_once = PTHREAD_ONCE_INIT;
static uint64_t host_hash;

/* NCCL_HOSTID replaces the host's name; read once per process, as misc/utils.cc does. */
static void host_init(void)
{
    char text[256] = "";
    const char *given = getenv("NCCL_HOSTID");
    if (given == NULL) {
        (void)gethostname(text, sizeof text - 1);
        given = text;
    }
    host_hash = standin_hash(1, given, strlen(given));
}

uint64_t standin_host_hash(void)
{
    (void)pthread_once(&host_once, host_init);
    return host_hash;
}

/* Accepts all ranks; returns their number, or 0 if the root gives up. */
static int root_collect(struct root *root, struct standin_peer **peers)
{
    struct standin_wait wait = {&root->is_stopping, NULL};
    int expected = 1;
    for (int seen = 0; seen < expected; seen++) {
        int fd = -1;
        struct hello hello;
        if (standin_accept(root->listen_fd, &wait, &fd) != STANDIN_SUCCESS) {
            return 0;
        }
        if (standin_recv_all(fd, &hello, sizeof hello, &wait) != STANDIN_SUCCESS ||
            hello.magic != root->magic) {
            standin_close(&fd);
            seen--;
            continue;
        }
        if (seen == 0) {
            expected = hello.peer.rank_count;
            *peers = calloc((size_t)expected, sizeof **peers);
            root->fd = malloc((size_t)(expected + 1) * sizeof *root->fd);
            if (*peers == NULL || root->fd == NULL) {
                standin_close(&fd);
                return 0;
            }
            memset(root->fd, 0xff, (size_t)(expected + 1) * sizeof *root->fd);
            root->fd[expected] = -2;
        }
        int rank = hello.peer.rank;
        if (hello.peer.rank_count != expected || root->fd[rank] >= 0) {
            standin_warn(hello.peer.rank_count != expected
                             ? "Bootstrap Root : mismatch in info from procs, nranks %d vs %d"
                             : "Bootstrap Root : rank %d of %d ranks has already checked in",
                         hello.peer.rank_count != expected ? expected : rank,
                         hello.peer.rank_count != expected ? hello.peer.rank_count : expected);
            standin_close(&fd);
            return 0;
        }
        root->fd[rank] = fd;
        (*peers)[rank] = hello.peer;
    }
    return expected;
}

static void *root_main(void *context)
{
    struct root *root = context;
    struct standin_wait wait = {&root->is_stopping, NULL};
    struct standin_peer *peers = NULL;
    int count = root_collect(root, &peers);
    while (count > 0) {
        for (int i = 0; i < count; i++) {
            (void)standin_send_all(root->fd[i], peers, (size_t)count * sizeof *peers, &wait);
            standin_close(&root->fd[i]);
        }
        free(peers);
        peers = NULL;
        if (!standin_script_has("id=again")) {
            break;
        }
        free(root->fd);
        root->fd = NULL;
        count = root_collect(root, &peers);
    }
    free(peers);
    if (count > 0) {
        standin_close(&root->listen_fd);
        atomic_store(&root->is_done, 1);
    }
    return NULL;
}

static void root_free(struct root *root)
{
    atomic_store(&root->is_stopping, 1);
    standin_thread_join(&root->thread);
    for (int i = 0; root->fd != NULL && root->fd[i] != -2; i++) {
        standin_close(&root->fd[i]);
    }
    standin_close(&root->listen_fd);
    free(root->fd);
    free(root);
}

/* Frees the roots that have served everybody, or all. */
static void roots_free(bool is_all)
{
    pthread_mutex_lock(&roots_lock);
    struct root **link = &roots;
    while (*link != NULL) {
        struct root *root = *link;
        if (is_all || atomic_load(&root->is_done) != 0) {
            *link = root->next;
            root_free(root);
        } else {
            link = &root->next;
        }
    }
    pthread_mutex_unlock(&roots_lock);
}

/* The process or the library ends: roots that still wait for ranks end too. */
__attribute__((destructor)) void standin_roots_stop(void)
{
    roots_free(true);
}

int ncclGetUniqueId(struct standin_id *id)
{
    STANDIN_CHECK(standin_pointer_check(id, "GetUniqueId", "out"));
    STANDIN_CHECK(standin_script_error("id", -1));
    roots_free(false);
    struct root *root = calloc(1, sizeof *root);
    struct id_content content;
    memset(&content, 0, sizeof content);
    if (root == NULL) {
        return STANDIN_SYSTEM_ERROR;
    }
    int result = standin_listen(&root->listen_fd, &content.port);
    if (result != STANDIN_SUCCESS) {
        free(root);
        return result;
    }
    if (getrandom(&content.magic, sizeof content.magic, 0) != (ssize_t)sizeof content.magic ||
        (root->magic = content.magic, standin_thread_start(&root->thread, root_main, root) != 0)) {
        standin_warn("Call to pthread_create failed: %s", strerror(errno));
        standin_close(&root->listen_fd);
        free(root);
        return STANDIN_SYSTEM_ERROR;
    }
    pthread_mutex_lock(&roots_lock);
    root->next = roots;
    roots = root;
    pthread_mutex_unlock(&roots_lock);
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &content, sizeof content);
    return STANDIN_SUCCESS;
}

int standin_bootstrap_root(struct standin_comm *comm, const struct standin_id *id, uint16_t port,
                           struct standin_peer *peers)
{
    struct standin_wait wait = {comm->abort_source, NULL};
    struct id_content content;
    struct hello hello;
    int fd = -1;
    memset(&hello, 0, sizeof hello);
    memcpy(&content, id->internal, sizeof content);
    hello.magic = content.magic;
    standin_comm_describe(comm, port, &hello.peer);
    int result = standin_connect(content.port, &wait, &fd);
    if (result == STANDIN_SUCCESS) {
        result = standin_send_all(fd, &hello, sizeof hello, &wait);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_recv_all(fd, peers, (size_t)comm->rank_count * sizeof *peers, &wait);
        if (result == STANDIN_REMOTE_ERROR) {
            /* NCCL's ranks wait to be connected to and do not notice that the root is gone. */
            standin_wait_park(&wait);
            result = STANDIN_INTERNAL_ERROR;
        }
    }
    standin_close(&fd);
    return result;
}

static int mesh_accept(struct standin_comm *comm, int listen_fd, const struct standin_wait *wait)
{
    int fd = -1;
    struct link_hello hello;
    STANDIN_CHECK(standin_accept(listen_fd, wait, &fd));
    int result = standin_recv_all(fd, &hello, sizeof hello, wait);
    int *slots = comm->data_fd;
    if (result == STANDIN_SUCCESS) {
        slots = hello.is_control != 0 ? comm->control_fd : comm->data_fd;
        if (hello.hash != comm->hash || hello.rank <= comm->rank ||
            hello.rank >= comm->rank_count || slots[hello.rank] >= 0) {
            standin_warn("socketFinalizeAccept: wrong magic from rank %d", hello.rank);
            result = STANDIN_INTERNAL_ERROR;
        }
    }
    if (result != STANDIN_SUCCESS) {
        standin_close(&fd);
        return result;
    }
    slots[hello.rank] = fd;
    return STANDIN_SUCCESS;
}

int standin_bootstrap_mesh(struct standin_comm *comm, int listen_fd,
                           const struct standin_peer *peers)
{
    struct standin_wait wait = {comm->abort_source, NULL};
    for (uint32_t is_control = 0; is_control < 2; is_control++) {
        int *slots = is_control != 0 ? comm->control_fd : comm->data_fd;
        for (int peer = 0; peer < comm->rank; peer++) {
            struct link_hello hello = {comm->hash, comm->rank, is_control};
            STANDIN_CHECK(standin_connect(peers[peer].port, &wait, &slots[peer]));
            STANDIN_CHECK(standin_send_all(slots[peer], &hello, sizeof hello, &wait));
        }
    }
    for (int i = 0; i < 2 * (comm->rank_count - 1 - comm->rank); i++) {
        STANDIN_CHECK(mesh_accept(comm, listen_fd, &wait));
    }
    return STANDIN_SUCCESS;
}

int standin_control_send(struct standin_comm *comm, int peer, const struct standin_frame *frame)
{
    struct standin_wait wait = {comm->abort_source, NULL};
    return standin_send_all(comm->control_fd[peer], frame, sizeof *frame, &wait);
}

/* Frames that were not asked for yet are kept. */
int standin_control_recv(struct standin_comm *comm, int peer, uint32_t tag,
                         struct standin_frame *frame)
{
    struct standin_wait wait = {comm->abort_source, NULL};
    for (struct standin_stash **link = &comm->stash; *link != NULL; link = &(*link)->next) {
        struct standin_stash *stash = *link;
        if (stash->peer == peer && stash->frame.tag == tag) {
            *frame = stash->frame;
            *link = stash->next;
            free(stash);
            return STANDIN_SUCCESS;
        }
    }
    for (;;) {
        STANDIN_CHECK(standin_recv_all(comm->control_fd[peer], frame, sizeof *frame, &wait));
        if (frame->tag == tag) {
            return STANDIN_SUCCESS;
        }
        struct standin_stash *stash = calloc(1, sizeof *stash);
        if (stash == NULL) {
            return STANDIN_SYSTEM_ERROR;
        }
        stash->peer = peer;
        stash->frame = *frame;
        struct standin_stash **tail = &comm->stash;
        while (*tail != NULL) {
            tail = &(*tail)->next;
        }
        *tail = stash;
    }
}
