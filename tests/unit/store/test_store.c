/* The rendezvous store: TCP client and server, the simulator's table. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/store/store.h"
#include "ddpcore/transport/loop.h"
#include "tests/ct.h"

#define WAIT_NS (10 * DDP_NS_PER_S)

struct rig {
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_store_server *server;
    uint16_t port;
    struct ddp_store *client[2];
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;
};

static uint64_t soon(const struct rig *rig)
{
    return ddp_clock_deadline_ns(rig->env.clock, WAIT_NS);
}

static bool rig_open(struct rig *rig)
{
    struct ddp_err err = {""};
    int listen_fd;

    memset(rig, 0, sizeof(*rig));
    ddp_env_init_process(&rig->env, &rig->idle, 0, 1);
    CT_CHECK_OK(ddp_store_listen("127.0.0.1", 0, &listen_fd, &rig->port, &err));
    CT_CHECK_OK(ddp_store_server_create(rig->env.mem, listen_fd, &rig->server, &err));
    for (int i = 0; i < 2; i++) {
        CT_CHECK_OK(ddp_store_tcp_create(&rig->env, "127.0.0.1", rig->port, -1, soon(rig),
                                         &rig->client[i], &err));
    }
    CT_CHECK_STR(err.text, "");
    return rig->client[0] != NULL && rig->client[1] != NULL;
}

static void rig_close(struct rig *rig)
{
    rig->client[0]->ops->destroy(rig->client[0]);
    rig->client[1]->ops->destroy(rig->client[1]);
    ddp_store_server_destroy(rig->server);
}

/* Pump until the call is not PENDING, a bounded number of times. */
#define PUMPED(rig, call)                                                               \
    __extension__({                                                                     \
        ddp_status pumped_status = (call);                                              \
        for (int pumped = 0; pumped < 2000 && pumped_status == DDP_PENDING; pumped++) { \
            struct pollfd pumped_fd = {ddp_store_server_fd((rig)->server), POLLIN, 0};  \
            (void)poll(&pumped_fd, 1, 1);                                               \
            ddp_store_server_pump((rig)->server);                                       \
            pumped_status = (call);                                                     \
        }                                                                               \
        pumped_status;                                                                  \
    })

/* A value set by one client is what another one gets, up to the largest key and value. */
CT_TEST(store, set_then_get)
{
    struct rig rig;
    char key[DDP_STORE_KEY_BYTES_MAX + 2];
    uint8_t large[DDP_STORE_VALUE_BYTES_MAX + 1];

    CT_REQUIRE(rig_open(&rig));
    memset(key, 'k', sizeof(key));
    key[DDP_STORE_KEY_BYTES_MAX] = '\0';
    memset(large, 7, sizeof(large));
    CT_CHECK_OK(PUMPED(
        &rig, rig.client[0]->ops->set(rig.client[0], key, large, DDP_STORE_VALUE_BYTES_MAX)));
    CT_CHECK_OK(
        PUMPED(&rig, rig.client[1]->ops->get(rig.client[1], key, rig.value, &rig.value_bytes)));
    CT_CHECK_EQ_U64(rig.value_bytes, DDP_STORE_VALUE_BYTES_MAX);
    CT_CHECK_BYTES(rig.value, large, DDP_STORE_VALUE_BYTES_MAX);
    CT_CHECK_STATUS(rig.client[0]->ops->set(rig.client[0], "a", large, sizeof(large)),
                    DDP_E_INVALID);
    key[DDP_STORE_KEY_BYTES_MAX] = 'k';
    key[DDP_STORE_KEY_BYTES_MAX + 1] = '\0';
    CT_CHECK_STATUS(rig.client[0]->ops->set(rig.client[0], key, "x", 1), DDP_E_INVALID);
    rig_close(&rig);
}

/* A get of an unset key waits; a given-up get does not disturb the next call, and its late response
 * is not taken for another's. */
CT_TEST(store, get_waits_and_can_be_abandoned)
{
    struct rig rig;

    CT_REQUIRE(rig_open(&rig));
    for (int i = 0; i < 20; i++) {
        CT_CHECK_STATUS(
            rig.client[0]->ops->get(rig.client[0], "later", rig.value, &rig.value_bytes),
            DDP_PENDING);
        ddp_store_server_pump(rig.server);
    }
    CT_CHECK_OK(PUMPED(&rig, rig.client[1]->ops->set(rig.client[1], "later", "old", 3)));
    /* The response to the abandoned get is on its way now. */
    CT_CHECK_OK(PUMPED(&rig, rig.client[0]->ops->set(rig.client[0], "other", "new", 3)));
    CT_CHECK_OK(
        PUMPED(&rig, rig.client[0]->ops->get(rig.client[0], "other", rig.value, &rig.value_bytes)));
    CT_CHECK_BYTES(rig.value, "new", 3);
    CT_CHECK_OK(
        PUMPED(&rig, rig.client[0]->ops->get(rig.client[0], "later", rig.value, &rig.value_bytes)));
    CT_CHECK_BYTES(rig.value, "old", 3);
    rig_close(&rig);
}

/* Counters add up over clients, start at 0, refuse to overflow; a key that is no counter is
 * refused. */
CT_TEST(store, add)
{
    struct rig rig;
    int64_t sum = 0;

    CT_REQUIRE(rig_open(&rig));
    CT_CHECK_OK(PUMPED(&rig, rig.client[0]->ops->add(rig.client[0], "n", 5, &sum)));
    CT_CHECK_EQ_I64(sum, 5);
    CT_CHECK_OK(PUMPED(&rig, rig.client[0]->ops->add(rig.client[0], "n", 5, &sum)));
    CT_CHECK_OK(PUMPED(&rig, rig.client[1]->ops->add(rig.client[1], "n", -11, &sum)));
    CT_CHECK_EQ_I64(sum, -1);
    CT_CHECK_STATUS(PUMPED(&rig, rig.client[1]->ops->add(rig.client[1], "n", INT64_MIN, &sum)),
                    DDP_E_OVERFLOW);
    CT_CHECK_OK(PUMPED(&rig, rig.client[0]->ops->set(rig.client[0], "s", "abc", 3)));
    CT_CHECK_STATUS(PUMPED(&rig, rig.client[1]->ops->add(rig.client[1], "s", 1, &sum)),
                    DDP_E_STATE);
    rig_close(&rig);
}

/* A reported death ends present and later waits for unset keys, names the rank, and leaves keys
 * that are set alone. */
CT_TEST(store, death_ends_waits)
{
    struct rig rig;

    CT_REQUIRE(rig_open(&rig));
    CT_CHECK_OK(PUMPED(&rig, rig.client[1]->ops->set(rig.client[1], "set", "1", 1)));
    CT_CHECK_STATUS(rig.client[0]->ops->get(rig.client[0], "unset", rig.value, &rig.value_bytes),
                    DDP_PENDING);
    ddp_store_server_pump(rig.server);
    ddp_store_server_report_death(rig.server, 3);
    CT_CHECK_STATUS(
        PUMPED(&rig, rig.client[0]->ops->get(rig.client[0], "unset", rig.value, &rig.value_bytes)),
        DDP_E_PEER_DIED);
    CT_CHECK_EQ_I64(rig.client[0]->dead_rank, 3);
    CT_CHECK_STATUS(PUMPED(&rig, rig.client[1]->ops->get(rig.client[1], "unset too", rig.value,
                                                         &rig.value_bytes)),
                    DDP_E_PEER_DIED);
    CT_CHECK_OK(
        PUMPED(&rig, rig.client[0]->ops->get(rig.client[0], "set", rig.value, &rig.value_bytes)));
    rig_close(&rig);
}

static int raw_client(uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof(name)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Whether the server closes a connection on which these bytes arrive. */
static bool is_refused(struct rig *rig, const void *bytes, size_t size_bytes)
{
    int fd = raw_client(rig->port);
    bool is_closed = false;

    CT_CHECK(fd >= 0 && send(fd, bytes, size_bytes, MSG_NOSIGNAL) == (ssize_t)size_bytes);
    for (int i = 0; i < 20 && !is_closed; i++) {
        struct pollfd watched = {fd, POLLIN, 0};
        char byte;

        ddp_store_server_pump(rig->server);
        if (poll(&watched, 1, 1) > 0) {
            is_closed = recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
            break;
        }
    }
    (void)close(fd);
    return is_closed;
}

/* Frames that break a rule close their own connection; the other clients are served on. */
CT_TEST(store, malformed_frames)
{
    static const struct {
        const char *bytes;
        size_t size_bytes;
    } bad[] = {
        {"\xff\xff\xff\xff", 4},                                /* larger than any frame */
        {"\x00\x00\x00\x00", 4},                                /* no room for a head */
        {"\x07\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00", 11},   /* empty key */
        {"\x08\x00\x00\x00\x01\x00\x00\x00\x02\x02\x00k", 12},  /* key beyond the frame */
        {"\x08\x00\x00\x00\x01\x00\x00\x00\x09\x01\x00k", 12},  /* unknown operation */
        {"\x09\x00\x00\x00\x01\x00\x00\x00\x02\x01\x00kx", 13}, /* get with a payload */
        {"\x09\x00\x00\x00\x01\x00\x00\x00\x03\x01\x00kx", 13}, /* add without a number */
        {"\x08\x00\x00\x00\x01\x00\x00\x00\x01\x01\xffk", 12},  /* key longer than allowed */
    };
    struct rig rig;

    CT_REQUIRE(rig_open(&rig));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!is_refused(&rig, bad[i].bytes, bad[i].size_bytes)) {
            CT_FAIL("frame %zu was not refused", i);
        }
        CT_CHECK_OK(PUMPED(&rig, rig.client[0]->ops->set(rig.client[0], "k", "v", 1)));
    }
    CT_CHECK(!is_refused(&rig, "\x08\x00\x00\x00\x01\x00\x00\x00\x02\x01\x00k", 12));
    rig_close(&rig);
}

/* A frame that arrives byte by byte is served like any other. */
CT_TEST(store, slow_client)
{
    static const char frame[] = "\x09\x00\x00\x00\x05\x00\x00\x00\x01\x01\x00kv";
    struct rig rig;
    int fd;

    CT_REQUIRE(rig_open(&rig));
    fd = raw_client(rig.port);
    CT_REQUIRE(fd >= 0);
    for (size_t i = 0; i < sizeof(frame) - 1; i++) {
        CT_CHECK(send(fd, frame + i, 1, MSG_NOSIGNAL) == 1);
        ddp_store_server_pump(rig.server);
    }
    CT_CHECK_OK(
        PUMPED(&rig, rig.client[0]->ops->get(rig.client[0], "k", rig.value, &rig.value_bytes)));
    CT_CHECK_BYTES(rig.value, "v", 1);
    (void)close(fd);
    rig_close(&rig);
}

/* When the server goes away, calls end with IO, now and later. */
CT_TEST(store, server_gone)
{
    struct rig rig;

    CT_REQUIRE(rig_open(&rig));
    CT_CHECK_STATUS(rig.client[0]->ops->get(rig.client[0], "k", rig.value, &rig.value_bytes),
                    DDP_PENDING);
    ddp_store_server_destroy(rig.server);
    rig.server = NULL;
    CT_CHECK_STATUS(
        ddp_store_get(&rig.env, rig.client[0], "k", rig.value, &rig.value_bytes, soon(&rig)),
        DDP_E_IO);
    CT_CHECK_STATUS(rig.client[0]->ops->set(rig.client[0], "k", "v", 1), DDP_E_IO);
    rig_close(&rig);
}

/* The host answers itself as it answers others, who are served by its calls; who loses it knows
 * which rank it was. */
CT_TEST(store, host)
{
    struct rig rig;
    struct ddp_store *host = NULL, *guest = NULL;
    struct ddp_err err = {""};
    char key[DDP_STORE_KEY_BYTES_MAX + 2];
    int64_t sum = 0;

    CT_REQUIRE(rig_open(&rig));
    CT_REQUIRE_OK(
        ddp_store_tcp_create(&rig.env, "127.0.0.1", rig.port, 2, soon(&rig), &guest, &err));
    CT_REQUIRE_OK(ddp_store_host_create(&rig.env, rig.server, &host));
    rig.server = NULL;
    memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = '\0';
    CT_CHECK_STATUS(host->ops->set(host, key, "x", 1), DDP_E_INVALID);
    CT_CHECK_STATUS(host->ops->get(host, "later", rig.value, &rig.value_bytes), DDP_PENDING);
    CT_CHECK_OK(host->ops->add(host, "n", 5, &sum));
    CT_CHECK_STATUS(host->ops->add(host, "n", INT64_MAX, &sum), DDP_E_OVERFLOW);
    CT_CHECK_STATUS(guest->ops->set(guest, "later", "abc", 3), DDP_PENDING);
    CT_CHECK_OK(ddp_store_get(&rig.env, host, "later", rig.value, &rig.value_bytes, soon(&rig)));
    CT_CHECK_EQ_U64(rig.value_bytes, 3);
    CT_CHECK_BYTES(rig.value, "abc", 3);
    CT_CHECK_STATUS(host->ops->add(host, "later", 1, &sum), DDP_E_STATE);
    host->ops->destroy(host);
    CT_CHECK_STATUS(ddp_store_get(&rig.env, guest, "n", rig.value, &rig.value_bytes, soon(&rig)),
                    DDP_E_PEER_DIED);
    CT_CHECK_EQ_I64(guest->dead_rank, 2);
    guest->ops->destroy(guest);
    rig_close(&rig);
}

/* A wait that nobody ends stops at its deadline. */
CT_TEST(store, deadline)
{
    struct rig rig;

    CT_REQUIRE(rig_open(&rig));
    CT_CHECK_STATUS(ddp_store_get(&rig.env, rig.client[0], "never", rig.value, &rig.value_bytes,
                                  ddp_clock_deadline_ns(rig.env.clock, 5 * DDP_NS_PER_MS)),
                    DDP_E_TIMEOUT);
    rig_close(&rig);
}

#define BARRIER_RANKS 4u

static const char *fork_lookup(void *context, const char *name)
{
    const char *const *pairs = context;

    for (; pairs[0] != NULL; pairs += 2) {
        if (strcmp(pairs[0], name) == 0) {
            return pairs[1];
        }
    }
    return NULL;
}

/* Rank 0 hosts the store in its own process; every rank passes ten barriers and finds all keys. */
static int barrier_rank(uint32_t rank, uint16_t port)
{
    struct ddp_rendezvous rendezvous;
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_store *store;
    struct ddp_err err;
    char rank_text[16], port_text[16], name[32];
    const char *pairs[] = {"RANK",      rank_text,     "WORLD_SIZE", "4", "MASTER_ADDR",
                           "127.0.0.1", "MASTER_PORT", port_text,    NULL};
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;
    uint64_t deadline_ns;

    (void)snprintf(rank_text, sizeof(rank_text), "%u", rank);
    (void)snprintf(port_text, sizeof(port_text), "%u", port);
    ddp_env_init_process(&env, &idle, rank, BARRIER_RANKS);
    deadline_ns = ddp_clock_deadline_ns(env.clock, WAIT_NS);
    if (ddp_rendezvous_parse(fork_lookup, pairs, &rendezvous, &err) != DDP_OK ||
        ddp_rendezvous_store(&env, &rendezvous, deadline_ns, &store, &err) != DDP_OK) {
        return 1;
    }
    for (uint32_t i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof(name), "key/%u/%u", i, rank);
        if (ddp_store_set(&env, store, name, name, strlen(name), deadline_ns) != DDP_OK) {
            return 2;
        }
        (void)snprintf(name, sizeof(name), "barrier/%u", i);
        if (ddp_store_barrier(&env, store, name, BARRIER_RANKS, deadline_ns) != DDP_OK) {
            return 3;
        }
        (void)snprintf(name, sizeof(name), "key/%u/%u", i, (rank + 1) % BARRIER_RANKS);
        if (ddp_store_get(&env, store, name, value, &value_bytes, deadline_ns) != DDP_OK ||
            value_bytes != strlen(name) || memcmp(value, name, value_bytes) != 0) {
            return 4;
        }
    }
    if (ddp_store_barrier(&env, store, "end", BARRIER_RANKS, deadline_ns) != DDP_OK) {
        return 5;
    }
    store->ops->destroy(store);
    return 0;
}

CT_TEST(store, hosted_by_rank_0_and_early_clients)
{
    struct ddp_err err;
    uint16_t port;
    int fd;

    /* A free port, given back for rank 0 to take; the others start first and are refused at first.
     */
    CT_REQUIRE_OK(ddp_store_listen("127.0.0.1", 0, &fd, &port, &err));
    (void)close(fd);
    for (uint32_t i = 0; i < BARRIER_RANKS; i++) {
        if (fork() == 0) {
            _exit(barrier_rank(BARRIER_RANKS - 1 - i, port));
        }
    }
    for (uint32_t i = 0; i < BARRIER_RANKS; i++) {
        int status = -1;

        CT_CHECK(wait(&status) > 0);
        CT_CHECK(WIFEXITED(status));
        CT_CHECK_EQ_I64(WEXITSTATUS(status), 0);
    }
}

struct wakes {
    uint64_t at_ns[2];
};

static void note_wake(void *context, uint32_t rank, uint64_t at_ns)
{
    struct wakes *wakes = context;

    wakes->at_ns[rank] = at_ns;
}

/* The simulator's store: others see a value one latency later and are woken then; a death ends
 * waits one latency later. */
CT_TEST(store, loop_store_in_virtual_time)
{
    struct wakes wakes = {{0, 0}};
    struct ddp_clock_virtual clock;
    struct ddp_loop_config config = {
        .world_size = 2, .latency_ns = 100, .mem = ddp_mem_system(), .wake = note_wake};
    struct ddp_env env[2];
    struct ddp_loop_net *net;
    struct ddp_store *store[2];
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;
    int64_t sum;

    ddp_clock_virtual_init(&clock, 1000);
    config.clock = &clock.base;
    config.wake_context = &wakes;
    CT_REQUIRE_OK(ddp_loop_net_create(&config, &net));
    for (uint32_t i = 0; i < 2; i++) {
        memset(&env[i], 0, sizeof(env[i]));
        env[i].rank = i;
        env[i].mem = ddp_mem_system();
        env[i].clock = &clock.base;
        CT_REQUIRE_OK(ddp_loop_store_create(net, &env[i], &store[i]));
    }
    CT_CHECK_STATUS(store[1]->ops->get(store[1], "k", value, &value_bytes), DDP_PENDING);
    CT_CHECK_OK(store[0]->ops->set(store[0], "k", "v", 1));
    CT_CHECK_EQ_U64(wakes.at_ns[1], 1100);
    CT_CHECK_STATUS(store[1]->ops->get(store[1], "k", value, &value_bytes), DDP_PENDING);
    CT_CHECK_OK(store[0]->ops->get(store[0], "k", value, &value_bytes));
    ddp_clock_virtual_advance_to(&clock, 1100);
    CT_CHECK_OK(store[1]->ops->get(store[1], "k", value, &value_bytes));
    CT_CHECK_OK(store[0]->ops->add(store[0], "n", 2, &sum));
    CT_CHECK_OK(store[1]->ops->add(store[1], "n", 3, &sum));
    CT_CHECK_EQ_I64(sum, 5);
    CT_CHECK_STATUS(store[1]->ops->get(store[1], "never", value, &value_bytes), DDP_PENDING);
    ddp_loop_net_kill(net, 0);
    CT_CHECK_STATUS(store[1]->ops->get(store[1], "never", value, &value_bytes), DDP_PENDING);
    ddp_clock_virtual_advance_to(&clock, 1200);
    CT_CHECK_STATUS(store[1]->ops->get(store[1], "never", value, &value_bytes), DDP_E_PEER_DIED);
    CT_CHECK_EQ_I64(store[1]->dead_rank, 0);
    store[0]->ops->destroy(store[0]);
    store[1]->ops->destroy(store[1]);
    ddp_loop_net_destroy(net);
}
