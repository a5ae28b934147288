/* What moves on the connections of a tcp endpoint. Events are edges: a connection is read or
 * written until it says that it would block, and its flag says so from then on. */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "ddpcore/transport/tcp_endpoint.h"

#define EVENTS_MAX 64

static ddp_status system_error(struct ddp_err *err, const char *what)
{
    return ddp_err_set(err, DDP_E_SYSTEM, "%s: %s", what, strerror(errno));
}

static bool set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* Whether the peer's system still answers is asked on the connection that its messages come on. Our
 * replies there are short and always read, so that only silence can keep them back; on the other
 * one a peer that reads slowly would look like one that is gone. */
static bool watch_silence(int fd, uint64_t silence_ns)
{
    int seconds = (int)(silence_ns / DDP_NS_PER_S);

    DDP_ASSERT(seconds > 0 && seconds <= DDP_TCP_SILENCE_MAX_S);
    return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, seconds) &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

ddp_status ddp_tcp_link_open(struct ddp_tcp_endpoint *endpoint, uint32_t member,
                             struct ddp_err *err)
{
    struct ddp_tcp_peer *peer = &endpoint->peers[member];
    struct epoll_event out = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                              .data.u64 = (uint64_t)member << 1};
    struct epoll_event in = {.events = out.events, .data.u64 = out.data.u64 | 1u};

    DDP_ASSERT(peer->out_fd >= 0 && peer->in_fd >= 0);
    if (!set_option(peer->out_fd, IPPROTO_TCP, TCP_NODELAY, 1) ||
        !set_option(peer->in_fd, IPPROTO_TCP, TCP_NODELAY, 1) ||
        !watch_silence(peer->in_fd, endpoint->silence_ns)) {
        return system_error(err, "options of a socket");
    }
    if (epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_ADD, peer->out_fd, &out) != 0 ||
        epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_ADD, peer->in_fd, &in) != 0) {
        return system_error(err, "epoll_ctl");
    }
    peer->can_write = true;
    peer->can_read = true;
    return DDP_OK;
}

/* --- losing a peer ---------------------------------------------------------------------------- */

static enum ddp_link lost_by(int error)
{
    switch (error) {
    case 0:
        return DDP_LINK_ENDED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
        return DDP_LINK_SILENT;
    default:
        return DDP_LINK_RESET;
    }
}

/* The first reason counts. Our ends are closed for writing: if the peer still lives, it learns that
 * it has lost us. */
static void lose(struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer, enum ddp_link lost,
                 int error)
{
    int32_t member = (int32_t)(peer - endpoint->peers);

    if (peer->lost != DDP_LINK_STANDS) {
        return;
    }
    peer->lost = lost;
    peer->lost_errno = error;
    if (lost != DDP_LINK_DEPARTED && !endpoint->is_leaving) {
        /* Before the peer can see it: whose record is first, its calls failed. */
        ddp_recorder_event(endpoint->env->recorder, DDP_EVENT_LINK_LOST, peer->rank, (uint64_t)lost,
                           (uint64_t)error, 0, 0);
    }
    (void)shutdown(peer->out_fd, SHUT_WR);
    (void)shutdown(peer->in_fd, SHUT_WR);
    if (lost == DDP_LINK_DEPARTED) {
        return;
    }
    if (endpoint->dead_peer < 0 || member < endpoint->dead_peer) {
        endpoint->dead_peer = member;
    }
}

/* --- replies: acknowledgements, revocations, farewells ---------------------------------------- */

/* False: it makes no sense. */
static bool take_reply(struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer)
{
    const struct ddp_tcp_frame *frame = &peer->replies.frame;

    switch (frame->kind) {
    case DDP_TCP_ACK:
        if (frame->word[0] < peer->taken || frame->word[0] > peer->written) {
            return false;
        }
        peer->taken = frame->word[0];
        return true;
    case DDP_TCP_REVOKE:
        if (!peer->is_revoking) {
            peer->is_revoking = true;
            peer->revocation =
                (struct ddp_revocation){.rank = (uint32_t)frame->word[0],
                                        .status = (ddp_status)(int32_t)(uint32_t)frame->word[1],
                                        .step = (uint32_t)frame->word[2],
                                        .detail = frame->payload_hash};
            endpoint->revoking_count++;
        }
        return true;
    case DDP_TCP_BYE:
        lose(endpoint, peer, DDP_LINK_DEPARTED, 0);
        return true;
    default:
        return false;
    }
}

/* Receive into a reader. OK: bytes came. PENDING: none now. Else *out_errno: 0 at the stream's end.
 */
static ddp_status receive(int fd, struct ddp_tcp_reader *reader, int *out_errno)
{
    size_t size_bytes;
    uint8_t *space = ddp_tcp_reader_space(reader, &size_bytes);
    ssize_t got;

    do {
        got = recv(fd, space, size_bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        ddp_tcp_reader_filled(reader, (size_t)got);
        return DDP_OK;
    }
    *out_errno = got < 0 ? errno : 0;
    return got < 0 && errno == EAGAIN ? DDP_PENDING : DDP_E_IO;
}

/* All that has come. What the peer said before its end is heard before the end. */
static void read_replies(struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer)
{
    ddp_status status = DDP_OK;
    int error = 0;

    while (status == DDP_OK && peer->lost == DDP_LINK_STANDS) {
        status = ddp_tcp_reader_next(&peer->replies);
        if (status == DDP_OK) {
            if (!take_reply(endpoint, peer)) {
                status = DDP_E_CORRUPT;
            }
            ddp_tcp_reader_drop(&peer->replies);
        } else if (status == DDP_PENDING) {
            status = receive(peer->out_fd, &peer->replies, &error);
        }
    }
    if (status == DDP_E_CORRUPT) {
        lose(endpoint, peer, DDP_LINK_DAMAGED, 0);
    } else if (status == DDP_E_IO) {
        lose(endpoint, peer, lost_by(error), error);
    }
}

/* A call on one of the peer's connections failed. It may have said farewell on the other one. */
static void fail(struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer, int error)
{
    read_replies(endpoint, peer);
    lose(endpoint, peer, lost_by(error), error);
}

static void begin_reply(struct ddp_tcp_peer *peer, const struct ddp_tcp_frame *frame)
{
    ddp_tcp_frame_encode(frame, peer->nonce, peer->reply_number++, peer->reply);
    peer->reply_bytes = DDP_TCP_HEAD_BYTES;
    peer->reply_sent = 0;
}

/* The next reply that is owed; false: none is. The farewell is the last. */
static bool next_reply(const struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer)
{
    struct ddp_tcp_frame frame = {.kind = DDP_TCP_ACK};

    if (peer->owes_revocation) {
        const struct ddp_revocation *own = &endpoint->peers[endpoint->base.member].revocation;

        peer->owes_revocation = false;
        frame = (struct ddp_tcp_frame){DDP_TCP_REVOKE, 0, {0}, own->detail};
        frame.word[0] = own->rank;
        frame.word[1] = (uint32_t)own->status;
        frame.word[2] = own->step;
    } else if (peer->consumed > peer->told &&
               (peer->is_wanted || peer->owes_farewell ||
                peer->consumed - peer->told >= (endpoint->slot_count + 1) / 2)) {
        peer->told = peer->consumed;
        peer->is_wanted = false;
        frame.word[0] = peer->told;
    } else if (peer->owes_farewell) {
        peer->owes_farewell = false;
        frame.kind = DDP_TCP_BYE;
    } else {
        return false;
    }
    begin_reply(peer, &frame);
    return true;
}

void ddp_tcp_link_reply(struct ddp_tcp_endpoint *endpoint, uint32_t to)
{
    struct ddp_tcp_peer *peer = &endpoint->peers[to];

    while (peer->lost == DDP_LINK_STANDS &&
           (peer->reply_sent < peer->reply_bytes || next_reply(endpoint, peer))) {
        ssize_t sent = send(peer->in_fd, peer->reply + peer->reply_sent,
                            peer->reply_bytes - peer->reply_sent, MSG_NOSIGNAL);

        if (sent > 0) {
            peer->reply_sent += (size_t)sent;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            fail(endpoint, peer, errno);
        }
    }
}

/* --- messages --------------------------------------------------------------------------------- */

/* What of a message is still to be sent: the rest of its head with what follows in one piece if it
 * is short, else the head, then the caller's memory as it lies there. Returns what send did. */
static ssize_t send_some(int fd, const struct ddp_tcp_slot *slot)
{
    uint8_t whole[DDP_TCP_HEAD_BYTES + DDP_TCP_SMALL_BYTES];
    size_t head_bytes;

    if (slot->sent_bytes >= DDP_TCP_HEAD_BYTES) {
        size_t data_sent = slot->sent_bytes - DDP_TCP_HEAD_BYTES;

        return send(fd, slot->data + data_sent, slot->size_bytes - data_sent, MSG_NOSIGNAL);
    }
    head_bytes = DDP_TCP_HEAD_BYTES - slot->sent_bytes;
    if (slot->size_bytes > DDP_TCP_SMALL_BYTES) {
        return send(fd, slot->head + slot->sent_bytes, head_bytes, MSG_NOSIGNAL | MSG_MORE);
    }
    memcpy(whole, slot->head + slot->sent_bytes, head_bytes);
    memcpy(whole + head_bytes, slot->data, slot->size_bytes);
    return send(fd, whole, head_bytes + slot->size_bytes, MSG_NOSIGNAL);
}

void ddp_tcp_link_write(struct ddp_tcp_endpoint *endpoint, uint32_t to)
{
    struct ddp_tcp_peer *peer = &endpoint->peers[to];

    while (peer->can_write && peer->written < peer->posted && !peer->is_cut &&
           peer->lost == DDP_LINK_STANDS && endpoint->revoking_count == 0) {
        struct ddp_tcp_slot *slot = &peer->slots[peer->written & (endpoint->slot_count - 1)];
        ssize_t sent = send_some(peer->out_fd, slot);

        if (sent > 0) {
            slot->sent_bytes += (size_t)sent;
            DDP_ASSERT(slot->sent_bytes <= DDP_TCP_HEAD_BYTES + slot->size_bytes);
            if (slot->sent_bytes == DDP_TCP_HEAD_BYTES + slot->size_bytes) {
                slot->data = NULL;
                peer->written++;
                endpoint->unsent--;
            }
        } else if (errno == EAGAIN) {
            peer->can_write = false;
        } else if (errno != EINTR) {
            fail(endpoint, peer, errno);
        }
    }
}

/* The stream of messages is over. If it ends within a message or without a farewell, the peer is
 * lost; its other connection says why, if that has come. */
static void end_messages(struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer, int error)
{
    peer->has_ended = true;
    peer->can_read = false;
    if (error != 0) {
        fail(endpoint, peer, error);
    } else {
        /* Whoever has left may have said so on a connection that is slower than this one; if it has
         * not, it learns from these ends that we are done, and its end follows. */
        (void)shutdown(peer->out_fd, SHUT_WR);
        (void)shutdown(peer->in_fd, SHUT_WR);
        read_replies(endpoint, peer);
    }
}

ddp_status ddp_tcp_link_read(struct ddp_tcp_endpoint *endpoint, uint32_t from)
{
    struct ddp_tcp_peer *peer = &endpoint->peers[from];
    ddp_status status = ddp_tcp_reader_next(&peer->messages);
    int error = 0;

    while (status == DDP_PENDING && peer->can_read) {
        status = receive(peer->in_fd, &peer->messages, &error);
        if (status == DDP_PENDING) {
            peer->can_read = false;
        } else if (status == DDP_E_IO) {
            end_messages(endpoint, peer, error);
            status = DDP_PENDING;
        } else {
            status = ddp_tcp_reader_next(&peer->messages);
        }
    }
    if (status == DDP_OK && peer->messages.frame.kind != DDP_TCP_DATA) {
        status = peer->messages.failed = DDP_E_CORRUPT;
    }
    if (status == DDP_E_CORRUPT) {
        lose(endpoint, peer, DDP_LINK_DAMAGED, 0);
        return DDP_E_IO;
    }
    if (status == DDP_PENDING && peer->lost != DDP_LINK_STANDS &&
        (peer->has_ended || peer->lost == DDP_LINK_SILENT || peer->lost == DDP_LINK_DAMAGED)) {
        return DDP_E_PEER_DIED;
    }
    return status;
}

/* --- events ----------------------------------------------------------------------------------- */

static void take_event(struct ddp_tcp_endpoint *endpoint, const struct epoll_event *event)
{
    uint32_t member = (uint32_t)(event->data.u64 >> 1);
    struct ddp_tcp_peer *peer = &endpoint->peers[member];

    DDP_ASSERT(member < endpoint->base.member_count);
    if ((event->data.u64 & 1u) == 0) {
        peer->can_write |= (event->events & EPOLLOUT) != 0;
        if ((event->events & ~(uint32_t)EPOLLOUT) != 0) {
            read_replies(endpoint, peer);
        }
        return;
    }
    if ((event->events & ~(uint32_t)EPOLLOUT) != 0) {
        peer->can_read = !peer->has_ended;
    }
    if ((event->events & EPOLLERR) != 0) {
        int error = 0;
        socklen_t error_bytes = sizeof error;

        /* What has come before can still be read. */
        (void)getsockopt(peer->in_fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
        if (error != 0) {
            fail(endpoint, peer, error);
        }
    }
    if ((event->events & EPOLLOUT) != 0) {
        ddp_tcp_link_reply(endpoint, member);
    }
}

void ddp_tcp_link_look(struct ddp_tcp_endpoint *endpoint)
{
    struct epoll_event events[EVENTS_MAX];
    int count;

    do {
        count = epoll_wait(endpoint->epoll_fd, events, EVENTS_MAX, 0);
        for (int i = 0; i < count; i++) {
            take_event(endpoint, &events[i]);
        }
    } while (count == EVENTS_MAX);
}

/* No edge follows a call that said it would block and need not have. */
void ddp_tcp_link_retry(struct ddp_tcp_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        struct ddp_tcp_peer *peer = &endpoint->peers[i];

        if (i != endpoint->base.member) {
            peer->can_write = true;
            peer->can_read = !peer->has_ended;
            read_replies(endpoint, peer);
            ddp_tcp_link_reply(endpoint, i);
        }
    }
}

static bool has_arrived(int fd)
{
    int waiting_bytes = 0;

    return ioctl(fd, SIOCOUTQ, &waiting_bytes) != 0 || waiting_bytes == 0;
}

bool ddp_tcp_link_is_flushed(const struct ddp_tcp_endpoint *endpoint, uint32_t to,
                             bool with_messages)
{
    const struct ddp_tcp_peer *peer = &endpoint->peers[to];

    if (peer->lost != DDP_LINK_STANDS) {
        return true;
    }
    if (peer->reply_sent < peer->reply_bytes || peer->owes_farewell || !has_arrived(peer->in_fd)) {
        return false;
    }
    return !with_messages ||
           ((peer->written == peer->posted || peer->is_cut) && has_arrived(peer->out_fd));
}
