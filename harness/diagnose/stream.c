#include "harness/diagnose/stream.h"

#include <string.h>

#include "ddpcore/base/hash.h"

enum { CONTEXT_MAX = 48, CONTEXT_MIN = 2 };

/* Calls whose members may bring different numbers of elements. */
static bool is_uneven(const char *kind)
{
    static const char *const kinds[] = {
        "gather",     "Gather",    "GATHER",    "scatter",        "Scatter",        "SCATTER",
        "all_gather", "ALLGATHER", "allgather", "reduce_scatter", "REDUCE_SCATTER", "coalesced"};

    if (strstr(kind, "to_all") != NULL || strstr(kind, "toall") != NULL ||
        strstr(kind, "AllToAll") != NULL || strstr(kind, "TOALL") != NULL ||
        strchr(kind, '+') != NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t mix(uint64_t hash, const char *text)
{
    return ddp_hash_bytes(text, strlen(text), hash + 1);
}

static uint64_t sign_of(const struct harness_diag_call *call)
{
    uint64_t hash = mix(1, call->kind);

    if (!is_uneven(call->kind) && strstr(call->kind, "barrier") == NULL) {
        hash = mix(mix(hash, call->counts), call->dtype);
    }
    hash = mix(hash, call->redop);
    return ddp_hash_bytes(&call->root, sizeof call->root, hash);
}

/* Without gaps from first_seq on: what lies behind a gap is left out. */
bool harness_diag_stream_make(struct harness_diag_evidence *evidence,
                              const struct harness_diag_member *member, bool by_stack,
                              struct harness_diag_stream *out)
{
    *out = (struct harness_diag_stream){.member = member};
    out->sign = ddp_mem_array(evidence->mem, member->call_count, sizeof *out->sign);
    if (out->sign == NULL) {
        evidence->is_failed = true;
        return false;
    }
    for (size_t i = 0; i < member->call_count; i++) {
        const struct harness_diag_call *call = &member->calls[i];

        if (i > 0 && call->seq != member->calls[i - 1].seq + 1) {
            break;
        }
        if (by_stack && call->stack == 0) {
            return false;
        }
        out->sign[out->count++] = sign_of(call) + (by_stack ? call->stack : 0);
    }
    out->first_seq = out->count > 0 ? member->calls[0].seq : 0;
    return true;
}

bool harness_diag_stream_has(const struct harness_diag_stream *stream, int64_t seq)
{
    return seq >= stream->first_seq && seq < stream->first_seq + (int64_t)stream->count;
}

uint64_t harness_diag_stream_at(const struct harness_diag_stream *stream, int64_t seq)
{
    return stream->sign[seq - stream->first_seq];
}

/* What followed, each time before, where the same calls had led up to: 0 if that is not told.
 * count: how many of signs are the past. */
uint64_t harness_diag_foretell(const uint64_t *signs, size_t count)
{
    size_t longest = count < CONTEXT_MAX ? count : CONTEXT_MAX;

    for (size_t length = longest; length >= CONTEXT_MIN; length--) {
        uint64_t next = 0;

        for (size_t end = length; end < count; end++) {
            if (memcmp(signs + end - length, signs + count - length, length * sizeof *signs) != 0) {
                continue;
            }
            if (next != 0 && next != signs[end]) {
                return 0;
            }
            next = signs[end];
        }
        if (next != 0) {
            return next;
        }
    }
    return 0;
}

/* The same with one more call behind the past. */
uint64_t harness_diag_foretell_behind(struct harness_diag_evidence *evidence, const uint64_t *signs,
                                      size_t count, uint64_t one_more)
{
    uint64_t *longer = ddp_mem_array(evidence->mem, count + 1, sizeof *longer);

    if (longer == NULL) {
        evidence->is_failed = true;
        return 0;
    }
    memcpy(longer, signs, count * sizeof *signs);
    longer[count] = one_more;
    return harness_diag_foretell(longer, count + 1);
}

enum harness_diag_expected harness_diag_is_expected(struct harness_diag_evidence *evidence,
                                                    const struct harness_diag_member *member,
                                                    size_t index)
{
    struct harness_diag_stream stream;
    uint64_t next;

    if (!harness_diag_stream_make(evidence, member, false, &stream) || index >= stream.count) {
        return HARNESS_DIAG_NOT_TOLD;
    }
    next = harness_diag_foretell(stream.sign, index);
    return next == 0                    ? HARNESS_DIAG_NOT_TOLD
           : next == stream.sign[index] ? HARNESS_DIAG_EXPECTED
                                        : HARNESS_DIAG_UNEXPECTED;
}
