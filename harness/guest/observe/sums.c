/* What goes into a call and what comes out, observed. */
#include "harness/guest/observe/sums.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/guest/fault.h"
#include "harness/guest/observe/keep.h"
#include "harness/guest/observe/project.h"
#include "harness/guest/self.h"

/* In call->state: where the program's input lies and what its bytes hash to, if it must stay as it
 * is until the call is done. fault.c uses the first words. */
enum { STATE_INPUT = 4, STATE_HASH = 5 };
/* In the place of an input: the call's data are not looked at. */
enum { PASSED_OVER = 1 };

/* Whether a word can be read: the kernel says so, and refuses to do anything with it. */
static int is_word_readable(uintptr_t address)
{
    return syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, 8) != 0 &&
           errno != EFAULT;
}

int guest_is_readable(const void *data, uint64_t size_bytes)
{
    const int error = errno;
    const int is_so =
        data != NULL && (size_bytes == 0 || (is_word_readable((uintptr_t)data) &&
                                             is_word_readable((uintptr_t)data + size_bytes - 1)));

    errno = error;
    return is_so;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t seed_of(const struct guest_comm *comm, uint64_t seq, uint64_t part)
{
    return guest_mix(guest_mix(guest_mix(guest_load(&comm->key)) + seq) + part);
}

/* In every call the same. */
static struct guest_sample sample_of(const struct guest_comm *comm,
                                     const struct ddprove_guest_call *call, const void *data,
                                     const struct guest_parts *parts)
{
    const uint64_t part_bytes = call->elem_count * guest_dtype_size_bytes(call->dtype);
    struct guest_sample sample = {.still = 0};

    for (uint64_t i = 0; i < parts->count; i++) {
        guest_sample((const char *)data + i * part_bytes, call->elem_count, call->dtype,
                     seed_of(comm, 0, parts->first + i * parts->stride), &sample);
    }
    return sample;
}

static struct guest_value value_of(const struct guest_comm *comm,
                                   const struct ddprove_guest_call *call, const void *data,
                                   const struct guest_parts *parts, unsigned wanted)
{
    const uint64_t part_bytes = call->elem_count * guest_dtype_size_bytes(call->dtype);
    struct guest_projection of = {.sum = 0};

    for (uint64_t i = 0; i < parts->count; i++) {
        guest_project((const char *)data + i * part_bytes, call->elem_count, call->dtype,
                      seed_of(comm, call->seq, parts->first + i * parts->stride), wanted, &of);
    }
    return (struct guest_value){.sum = guest_project_width_bits(call->dtype) != 0 ? of.whole
                                                                                  : bits_of(of.sum),
                                .magnitude = bits_of(of.magnitude),
                                .hash = of.hash};
}

static uint64_t bytes_of(const struct ddprove_guest_call *call, const struct guest_parts *parts)
{
    return parts->count * call->elem_count * guest_dtype_size_bytes(call->dtype);
}

/* There is no arithmetic for these: nothing is shown of their values, and nothing judged. */
static int is_opaque(uint32_t dtype)
{
    return dtype == DDPROVE_GUEST_F8E4M3 || dtype == DDPROVE_GUEST_F8E5M2;
}

static struct guest_parts parts_in(const struct guest_comm *comm,
                                   const struct ddprove_guest_call *call)
{
    struct guest_parts parts =
        guest_parts_in(call->kind, guest_load(&comm->rank), call->root, guest_load(&comm->size));

    parts.count = is_opaque(call->dtype) ? 0 : parts.count;
    return parts;
}

/* Nothing, unless the result's elements are as many as a call of this kind brings. */
static struct guest_parts parts_out(const struct guest_comm *comm,
                                    const struct ddprove_guest_call *call)
{
    struct guest_parts parts =
        guest_parts_out(call->kind, guest_load(&comm->rank), call->root, guest_load(&comm->size));
    const uint64_t count = call->out_count != 0 ? call->out_count : call->elem_count;

    parts.count =
        count == parts.count * call->elem_count && !is_opaque(call->dtype) ? parts.count : 0;
    return parts;
}

/* Input and output share no byte. A call that has no result here writes to nothing. */
static int is_apart(const struct guest_comm *comm, const struct ddprove_guest_call *call)
{
    const struct guest_parts in = parts_in(comm, call);
    const char *in_data = call->in;
    const char *out_data = call->out;
    const uint64_t count = call->out_count != 0 ? call->out_count : call->elem_count;

    return out_data == NULL || in_data + bytes_of(call, &in) <= out_data ||
           out_data + count * guest_dtype_size_bytes(call->dtype) <= in_data;
}

/* What comes out is not what was put in, so its bytes need not be compared. */
static int is_reduced(uint32_t kind)
{
    return kind == DDPROVE_GUEST_ALL_REDUCE || kind == DDPROVE_GUEST_REDUCE ||
           kind == DDPROVE_GUEST_REDUCE_SCATTER;
}

static int is_passed_over(const struct guest_page *page, const struct guest_comm *comm,
                          uint64_t seq)
{
    return !guest_is_drawn(guest_self_arena()->observed_every, guest_load(&comm->key), seq) &&
           !guest_is_kept(page);
}

void guest_sums_post_begin(const struct guest_page *page, const struct guest_comm *comm,
                           const struct ddprove_guest_call *call, struct guest_input *out)
{
    const struct guest_parts parts = parts_in(comm, call);
    unsigned wanted = GUEST_PROJECT_SUM | GUEST_PROJECT_MAGNITUDE;

    out->seq = 0;
    out->is_passed_over =
        guest_self_arena()->is_observed != 0 && is_passed_over(page, comm, call->seq);
    if (guest_self_arena()->is_observed == 0 || out->is_passed_over || parts.count == 0 ||
        !guest_is_readable(call->in, bytes_of(call, &parts))) {
        return;
    }
    *out = (struct guest_input){.seq = call->seq,
                                .data = call->in,
                                .is_apart = is_apart(comm, call),
                                .elem_count = call->elem_count,
                                .root = call->root,
                                .redop = call->redop};
    if (out->is_apart || !is_reduced(call->kind)) {
        wanted |= GUEST_PROJECT_HASH;
    }
    out->value = value_of(comm, call, call->in, &parts, wanted);
    out->sample = sample_of(comm, call, call->in, &parts);
    guest_keep(page, comm, call->seq, "in", call->in, bytes_of(call, &parts), &out->value);
}

void guest_sums_post_end(struct guest_page *page, struct ddprove_guest_call *call,
                         const struct guest_input *input)
{
    call->state[STATE_INPUT] = input->is_passed_over ? PASSED_OVER : 0;
    if (input->seq == 0 || input->seq != call->seq || input->elem_count != call->elem_count ||
        input->root != call->root || input->redop != call->redop) {
        return;
    }
    guest_self_record(page, GUEST_EVENT_VALUE_IN,
                      (const uint64_t[GUEST_ARG_COUNT]){call->comm, call->seq, input->value.sum,
                                                        input->value.magnitude, input->value.hash});
    guest_self_record(page, GUEST_EVENT_SAMPLE_IN,
                      (const uint64_t[GUEST_ARG_COUNT]){
                          call->comm | call->seq << 32, bits_of(input->sample.still),
                          bits_of(input->sample.up), bits_of(input->sample.down),
                          bits_of(input->sample.magnitude)});
    if (input->is_apart) {
        call->state[STATE_INPUT] = (uint64_t)(uintptr_t)input->data;
        call->state[STATE_HASH] = input->value.hash;
    }
}

void guest_sums_done(struct guest_page *page, const struct guest_comm *comm,
                     const struct ddprove_guest_call *call)
{
    const void *input = (const void *)(uintptr_t)call->state[STATE_INPUT];
    const struct guest_parts in = parts_in(comm, call);
    const struct guest_parts out = parts_out(comm, call);
    /* The largest of 0 and -0 is the one or the other, as it comes. */
    const unsigned wanted = GUEST_PROJECT_SUM | GUEST_PROJECT_HASH |
                            (call->redop == DDPROVE_GUEST_MAX || call->redop == DDPROVE_GUEST_MIN
                                 ? GUEST_PROJECT_PLUS_ZERO
                                 : 0);
    struct guest_value value;

    if (guest_self_arena()->is_observed == 0 || call->state[STATE_INPUT] == PASSED_OVER) {
        return;
    }
    if (guest_is_readable(input, bytes_of(call, &in)) &&
        value_of(comm, call, input, &in, GUEST_PROJECT_HASH).hash != call->state[STATE_HASH]) {
        guest_self_record(page, GUEST_EVENT_VALUE_CHANGED,
                          (const uint64_t[GUEST_ARG_COUNT]){call->comm, call->seq});
    }
    if (out.count != 0 && guest_is_readable(call->out, bytes_of(call, &out))) {
        value = value_of(comm, call, call->out, &out, wanted);
        guest_self_record(page, GUEST_EVENT_VALUE_OUT,
                          (const uint64_t[GUEST_ARG_COUNT]){
                              call->comm, call->seq, value.sum,
                              bits_of(sample_of(comm, call, call->out, &out).still), value.hash});
        guest_keep(page, comm, call->seq, "out", call->out, bytes_of(call, &out), &value);
    }
}
