/* The connections of a tcp group: this member connects to each other one, and each connects to it.
 */
#include "ddpcore/transport/tcp_join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long the store may take to name a dead rank, as for shared memory. */
#define DEATH_REPORT_NS DDP_NS_PER_S

/* --- connections to others -------------------------------------------------------------------- */

static void greet(const struct ddp_tcp_attach *attach, enum ddp_tcp_kind kind, uint32_t to,
                  uint64_t number, uint8_t *head)
{
    const struct ddp_tcp_frame frame = {.kind = kind,
                                        .word = {attach->config->member, to, attach->group}};

    ddp_tcp_frame_encode(&frame, attach->endpoint->peers[to].nonce, number, head);
}

/* Whether this is that greeting, for us; *out_from: who sent it. */
static bool is_greeting(const struct ddp_tcp_attach *attach, enum ddp_tcp_kind kind,
                        const uint8_t *head, uint32_t *out_from)
{
    struct ddp_tcp_frame frame;

    if (ddp_tcp_frame_decode(head, attach->endpoint->nonce, 0, &frame) != DDP_OK ||
        frame.kind != kind || frame.word[0] >= attach->config->member_count ||
        frame.word[0] == attach->config->member || frame.word[1] != attach->config->member ||
        frame.word[2] != attach->group) {
        return false;
    }
    *out_from = (uint32_t)frame.word[0];
    return true;
}

/* It listened when it published where, or it was connected to. Either another rank died first and
 * this one has given up, which the store will say, or it is the one that died. Nobody sets the key
 * that is waited for. error: of the call that showed it; 0: its connection ended. */
static ddp_status is_gone(struct ddp_tcp_attach *attach, uint32_t member, int error)
{
    struct ddp_env *env = attach->endpoint->env;
    uint64_t patience_ns = ddp_clock_deadline_ns(env->clock, DEATH_REPORT_NS);
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    char key[DDP_STORE_KEY_BYTES_MAX];
    size_t value_bytes;
    ddp_status status;

    (void)snprintf(key, sizeof key, "%s/gone", attach->config->group_name);
    status = ddp_store_get(env, attach->store, key, value, &value_bytes,
                           patience_ns < attach->deadline_ns ? patience_ns : attach->deadline_ns);
    if (status != DDP_E_PEER_DIED) {
        attach->store->dead_rank = (int32_t)ddp_tcp_rank_of(attach, member);
        ddp_recorder_event(env->recorder, DDP_EVENT_LINK_LOST, ddp_tcp_rank_of(attach, member),
                           (uint64_t)(error == 0 ? DDP_LINK_ENDED : DDP_LINK_RESET),
                           (uint64_t)error, 0, 0);
    }
    return ddp_err_set(attach->err, DDP_E_PEER_DIED, "rank %u %s; rank %d is dead",
                       ddp_tcp_rank_of(attach, member),
                       error == 0 ? "has left" : "listens no more where it said",
                       attach->store->dead_rank);
}

static void start_again(struct ddp_tcp_peer *peer, struct ddp_tcp_caller *caller)
{
    (void)close(peer->out_fd);
    peer->out_fd = -1;
    caller->state = DDP_TCP_CALL_NEW;
}

/* A system that is not reachable now may be so soon: only time decides. */
static bool is_passing(int error)
{
    return error == EINPROGRESS || error == EALREADY || error == EINTR || error == EAGAIN;
}

static ddp_status connect_to(struct ddp_tcp_attach *attach, uint32_t member)
{
    struct ddp_tcp_peer *peer = &attach->endpoint->peers[member];
    struct ddp_tcp_caller *caller = &attach->callers[member];

    if (caller->state == DDP_TCP_CALL_NEW) {
        peer->out_fd =
            socket(caller->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (peer->out_fd < 0) {
            return ddp_err_set(
                attach->err, errno == EMFILE || errno == ENFILE ? DDP_E_NO_FD : DDP_E_SYSTEM,
                "a socket for rank %u: %s", ddp_tcp_rank_of(attach, member), strerror(errno));
        }
        caller->state = DDP_TCP_CALL_CONNECTING;
    }
    if (connect(peer->out_fd, (const struct sockaddr *)&caller->name, caller->name_bytes) == 0 ||
        errno == EISCONN) {
        greet(attach, DDP_TCP_HELLO, member, 0, caller->head);
        caller->bytes = 0;
        caller->state = DDP_TCP_CALL_GREETED;
        return DDP_OK;
    }
    if (errno == ECONNREFUSED) {
        return is_gone(attach, member, errno);
    }
    if (!is_passing(errno)) {
        (void)ddp_err_set(attach->err, DDP_E_TIMEOUT, "rank %u cannot be reached: %s",
                          ddp_tcp_rank_of(attach, member), strerror(errno));
        start_again(peer, caller);
    }
    return DDP_PENDING;
}

/* Send the greeting, then take the answer. A connection that ends here starts again: the listener
 * may have had no room. */
static ddp_status talk_to(struct ddp_tcp_attach *attach, uint32_t member)
{
    struct ddp_tcp_peer *peer = &attach->endpoint->peers[member];
    struct ddp_tcp_caller *caller = &attach->callers[member];
    uint32_t from = 0;
    ssize_t moved;

    if (caller->bytes < DDP_TCP_HEAD_BYTES) {
        moved = send(peer->out_fd, caller->head + caller->bytes, DDP_TCP_HEAD_BYTES - caller->bytes,
                     MSG_NOSIGNAL);
    } else {
        size_t got_bytes = caller->bytes - DDP_TCP_HEAD_BYTES;

        moved = recv(peer->out_fd, caller->head + got_bytes, DDP_TCP_HEAD_BYTES - got_bytes, 0);
    }
    if (moved < 0 && is_passing(errno)) {
        return DDP_PENDING;
    }
    if (moved <= 0) {
        start_again(peer, caller);
        return DDP_PENDING;
    }
    caller->bytes += (size_t)moved;
    if (caller->bytes < (size_t)2 * DDP_TCP_HEAD_BYTES) {
        return DDP_PENDING;
    }
    if (!is_greeting(attach, DDP_TCP_WELCOME, caller->head, &from) || from != member) {
        return ddp_err_set(attach->err, DDP_E_MEMBER,
                           "who listens where rank %u said it does is not rank %u of group %s",
                           ddp_tcp_rank_of(attach, member), ddp_tcp_rank_of(attach, member),
                           attach->config->group_name);
    }
    caller->state = DDP_TCP_CALL_DONE;
    attach->missing--;
    return DDP_OK;
}

/* --- connections of others -------------------------------------------------------------------- */

static void drop_guest(struct ddp_tcp_guest *guest)
{
    (void)close(guest->fd);
    guest->fd = -1;
}

/* A member may come again if its first connection was not answered. */
static void hear_guest(struct ddp_tcp_attach *attach, struct ddp_tcp_guest *guest)
{
    ssize_t got = recv(guest->fd, guest->head + guest->bytes, DDP_TCP_HEAD_BYTES - guest->bytes, 0);
    struct ddp_tcp_peer *peer;
    uint32_t from = 0;

    if (got < 0 && is_passing(errno)) {
        return;
    }
    if (got <= 0) {
        drop_guest(guest);
        return;
    }
    guest->bytes += (size_t)got;
    if (guest->bytes < DDP_TCP_HEAD_BYTES) {
        return;
    }
    if (!is_greeting(attach, DDP_TCP_HELLO, guest->head, &from)) {
        drop_guest(guest);
        return;
    }
    peer = &attach->endpoint->peers[from];
    greet(attach, DDP_TCP_WELCOME, from, 0, guest->head);
    /* The first bytes of a connection: the system has room for them. */
    if (send(guest->fd, guest->head, DDP_TCP_HEAD_BYTES, MSG_NOSIGNAL) !=
        (ssize_t)DDP_TCP_HEAD_BYTES) {
        drop_guest(guest);
        return;
    }
    if (peer->in_fd >= 0) {
        (void)close(peer->in_fd);
    } else {
        attach->missing--;
    }
    peer->in_fd = guest->fd;
    guest->fd = -1;
}

/* Most have said who they are when they are let in. If all places are taken by some that have not,
 * the one that came first goes. */
static void let_in(struct ddp_tcp_attach *attach)
{
    struct ddp_tcp_guest *next = &attach->guests[attach->next_guest];

    for (uint32_t i = 0; i < DDP_TCP_GUEST_COUNT; i++) {
        if (attach->guests[i].fd >= 0) {
            hear_guest(attach, &attach->guests[i]);
        }
    }
    if (next->fd >= 0) {
        drop_guest(next);
    }
    while (next->fd < 0) {
        int fd = accept4(attach->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            return;
        }
        *next = (struct ddp_tcp_guest){.fd = fd};
        hear_guest(attach, next);
        if (next->fd >= 0) {
            attach->next_guest = (attach->next_guest + 1) % DDP_TCP_GUEST_COUNT;
            next = &attach->guests[attach->next_guest];
        }
    }
}

/* The connection to a member stands, and the one from it does not come. Nothing is sent on the
 * former before the latter stands, so that there is nothing to be taken but its end. */
static bool has_left(const struct ddp_tcp_attach *attach, uint32_t member)
{
    const struct ddp_tcp_peer *peer = &attach->endpoint->peers[member];
    uint8_t byte;

    return peer->in_fd < 0 && recv(peer->out_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static ddp_status joining_poll(void *self)
{
    struct ddp_tcp_attach *attach = self;

    let_in(attach);
    for (uint32_t i = 0; i < attach->config->member_count; i++) {
        ddp_status status = DDP_OK;

        if (i == attach->config->member) {
            continue;
        }
        if (attach->callers[i].state == DDP_TCP_CALL_DONE) {
            if (has_left(attach, i)) {
                return is_gone(attach, i, 0);
            }
            continue;
        }
        if (attach->callers[i].state != DDP_TCP_CALL_GREETED) {
            status = connect_to(attach, i);
        }
        while (attach->callers[i].state == DDP_TCP_CALL_GREETED && status == DDP_OK) {
            size_t before = attach->callers[i].bytes;

            status = talk_to(attach, i);
            if (status == DDP_PENDING && attach->callers[i].state == DDP_TCP_CALL_GREETED &&
                attach->callers[i].bytes > before) {
                status = DDP_OK; /* it goes on */
            }
        }
        if (status < DDP_OK) {
            return status;
        }
    }
    return attach->missing == 0 ? DDP_OK : DDP_PENDING;
}

ddp_status ddp_tcp_join(struct ddp_tcp_attach *attach)
{
    const struct ddp_pollable joining = {joining_poll, NULL, attach};
    struct ddp_env *env = attach->endpoint->env;
    ddp_status status = ddp_wait(env->idle, env->clock, &joining, attach->deadline_ns);
    const struct ddp_err so_far = *attach->err;

    for (uint32_t i = 0; i < attach->config->member_count && status == DDP_E_TIMEOUT; i++) {
        if (i != attach->config->member && (attach->callers[i].state != DDP_TCP_CALL_DONE ||
                                            attach->endpoint->peers[i].in_fd < 0)) {
            return ddp_err_set(attach->err, status, "no connection %s rank %u in time%s%s",
                               attach->callers[i].state != DDP_TCP_CALL_DONE ? "to" : "from",
                               ddp_tcp_rank_of(attach, i), so_far.text[0] != '\0' ? "; " : "",
                               so_far.text);
        }
    }
    return status;
}
