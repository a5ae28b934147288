/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * The script: directives separated by ';', each optionally behind "rank<R>:". Calls of collectives,
 * sends and receives are counted per communicator from 1, launched groups too.
 *
 *     id=<error>                              of ncclGetUniqueId
 *     init=in_progress_for_ever | init=<error>
 *     init_call=<error> | init_handle=<error> the call's own; without, or with a communicator
 *     op<N>=<error> | op<N>=hang
 *     launch<N>=<error> | launch<N>=hang      in the job that launches the group
 *     async=<error>                           the proxy's error, at once
 *     async_after_op=<N>:<error>              the proxy's error, once the call's work has ended
 *     corrupt_after_op=<N>                    the last byte of its output is flipped
 *     finalize=hang | finalize=<error>
 *     revoke=hang                             the call returns, but it never comes to rest
 *     child=<error>                           of shrink or split, once the child is connected
 *     shrink_call=<error>
 *     abort=hang | abort_after_revoke=hang | shrink_call=hang | revoke_call=hang
 *                                             the calls; the last one does nothing then
 *     id=again                                an id serves for one communicator after the other, as
 * with NCCL_COMM_ID sum=exact                               fp32 sums are rounded once, from up to
 * 16 ranks version=<N> | bus_id=unique | connect=eager | shrink_after_error=ok | strict_abort=1
 *
 * What hangs goes on when the communicator is aborted, or when the script is replaced.
 * <error>: 1 to 6, or cuda_error, system_error, internal_error, invalid_argument, invalid_usage,
 * remote_error, unknown (a result that is none of NCCL's). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/internal.h"

#define DIRECTIVES_MAX 32
#define UNKNOWN_RESULT 77

struct directive {
    int rank; /* or -1: all */
    char event[32];
    uint64_t number;
    char text[64]; /* as written, without the rank */
    struct standin_verdict verdict;
};

static pthread_mutex_t script_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t script_once = PTHREAD_ONCE_INIT;
static struct directive directives[DIRECTIVES_MAX];
static size_t directive_count;

static const char *const flags[] = {
    "bus_id=unique",         "bus_id=device",  "connect=eager", "connect=lazy",
    "shrink_after_error=ok", "strict_abort=1", "sum=exact",     "id=again"};
static const char *const errors[] = {"",
                                     "cuda_error",
                                     "system_error",
                                     "internal_error",
                                     "invalid_argument",
                                     "invalid_usage",
                                     "remote_error"};

static const struct {
    const char *name;
    bool is_counted, may_fail, may_hang;
} events[] = {{"id", false, true, false},        {"init", false, true, true},
              {"init_call", false, true, false}, {"init_handle", false, true, false},
              {"op", true, true, true},          {"launch", true, true, true},
              {"finalize", false, true, true},   {"abort", false, false, true},
              {"revoke", false, false, true},    {"abort_after_revoke", false, false, true},
              {"child", false, true, false},     {"revoke_call", false, false, true},
              {"async", false, true, false},     {"shrink_call", false, true, true}};

static bool parse_number(const char *text, uint64_t *out, const char **end)
{
    char *stop = NULL;
    if (*text < '0' || *text > '9') {
        return false;
    }
    *out = strtoull(text, &stop, 10);
    *end = stop;
    return true;
}

static bool parse_verdict(const char *text, struct standin_verdict *out)
{
    uint64_t number = 0;
    const char *end = text;
    out->action = STANDIN_ACT_ERROR;
    if (strcmp(text, "hang") == 0 || strcmp(text, "in_progress_for_ever") == 0) {
        out->action = STANDIN_ACT_HANG;
        return true;
    }
    if (strcmp(text, "unknown") == 0) {
        out->result = UNKNOWN_RESULT;
        return true;
    }
    for (int i = 1; i < STANDIN_IN_PROGRESS; i++) {
        if (strcmp(text, errors[i]) == 0) {
            out->result = i;
            return true;
        }
    }
    if (parse_number(text, &number, &end) && *end == '\0' && number >= 1 &&
        number < STANDIN_IN_PROGRESS) {
        out->result = (int)number;
        return true;
    }
    return false;
}

/* "op3" gives event "op" and number 3. */
static bool split_event(const char *key, size_t length, struct directive *out)
{
    size_t name_length = length;
    while (name_length > 0 && key[name_length - 1] >= '0' && key[name_length - 1] <= '9') {
        name_length--;
    }
    if (name_length == 0 || name_length >= sizeof out->event) {
        return false;
    }
    memcpy(out->event, key, name_length);
    out->event[name_length] = '\0';
    out->number = name_length < length ? strtoull(key + name_length, NULL, 10) : 0;
    return true;
}

static bool parse_value(const char *value, struct directive *out)
{
    const char *end = value;
    if (strcmp(out->event, "async_after_op") == 0) {
        return out->number == 0 && parse_number(value, &out->number, &end) && *end == ':' &&
               parse_verdict(end + 1, &out->verdict) && out->verdict.action == STANDIN_ACT_ERROR;
    }
    if (strcmp(out->event, "corrupt_after_op") == 0) {
        out->verdict.action = STANDIN_ACT_CORRUPT;
        return parse_number(value, &out->number, &end) && *end == '\0';
    }
    if (strcmp(out->event, "version") == 0) {
        return parse_number(value, &out->number, &end) && *end == '\0';
    }
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (strcmp(out->event, events[i].name) == 0) {
            return events[i].is_counted == (out->number > 0) &&
                   parse_verdict(value, &out->verdict) &&
                   (out->verdict.action == STANDIN_ACT_HANG ? events[i].may_hang
                                                            : events[i].may_fail);
        }
    }
    return false;
}

static bool parse_directive(const char *text, struct directive *out)
{
    memset(out, 0, sizeof *out);
    out->rank = -1;
    if (strncmp(text, "rank", 4) == 0) {
        uint64_t rank = 0;
        const char *end = text;
        if (!parse_number(text + 4, &rank, &end) || *end != ':') {
            return false;
        }
        out->rank = (int)rank;
        text = end + 1;
    }
    const char *equals = strchr(text, '=');
    if (equals == NULL || strlen(text) >= sizeof out->text) {
        return false;
    }
    memcpy(out->text, text, strlen(text) + 1);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(text, flags[i]) == 0) {
            return true;
        }
    }
    return split_event(text, (size_t)(equals - text), out) && parse_value(equals + 1, out);
}

static int script_replace(const char *text)
{
    struct directive parsed[DIRECTIVES_MAX];
    size_t count = 0;
    while (text != NULL && *text != '\0') {
        char one[96];
        size_t length = strcspn(text, ";");
        if (length > 0) {
            bool is_short = length < sizeof one;
            (void)snprintf(one, sizeof one, "%.*s", (int)length, text);
            if (!is_short || count == DIRECTIVES_MAX || !parse_directive(one, &parsed[count])) {
                standin_warn("stand-in script: \"%s\" is not understood", one);
                return STANDIN_INVALID_ARGUMENT;
            }
            count++;
        }
        text += length + (text[length] == ';' ? 1 : 0);
    }
    pthread_mutex_lock(&script_lock);
    memcpy(directives, parsed, count * sizeof parsed[0]);
    directive_count = count;
    pthread_mutex_unlock(&script_lock);
    return STANDIN_SUCCESS;
}

static void script_from_environment(void)
{
    if (script_replace(getenv("DDP_NCCL_STANDIN_SCRIPT")) != STANDIN_SUCCESS) {
        /* A test that is misspelt must not pass as one without a script. */
        abort();
    }
}

int ddp_nccl_standin_script(const char *text)
{
    (void)pthread_once(&script_once, script_from_environment);
    return script_replace(text);
}

struct standin_verdict standin_script_ask(const char *event, uint64_t number, int rank)
{
    struct standin_verdict verdict = {STANDIN_ACT_NONE, STANDIN_SUCCESS};
    (void)pthread_once(&script_once, script_from_environment);
    pthread_mutex_lock(&script_lock);
    for (size_t i = 0; i < directive_count; i++) {
        const struct directive *one = &directives[i];
        if (strcmp(one->event, event) == 0 && one->number == number &&
            (one->rank < 0 || one->rank == rank)) {
            verdict = one->verdict;
        }
    }
    pthread_mutex_unlock(&script_lock);
    return verdict;
}

int standin_script_error(const char *event, int rank)
{
    struct standin_verdict verdict = standin_script_ask(event, 0, rank);
    if (verdict.action != STANDIN_ACT_ERROR) {
        return STANDIN_SUCCESS;
    }
    standin_warn("stand-in script: %s=%d", event, verdict.result);
    return verdict.result;
}

static atomic_uint_fast64_t hanging_count;

bool standin_script_hold(const char *event, uint64_t number, int rank,
                         const struct standin_wait *wait)
{
    if (standin_script_ask(event, number, rank).action != STANDIN_ACT_HANG) {
        return false;
    }
    atomic_fetch_add(&hanging_count, 1);
    while (standin_script_ask(event, number, rank).action == STANDIN_ACT_HANG &&
           (wait == NULL || !standin_wait_is_over(wait))) {
        (void)standin_poll(NULL, 0, STANDIN_POLL_MS);
    }
    atomic_fetch_sub(&hanging_count, 1);
    return true;
}

uint64_t ddp_nccl_standin_hanging(void)
{
    return atomic_load(&hanging_count);
}

bool standin_script_has(const char *text)
{
    bool has = false;
    (void)pthread_once(&script_once, script_from_environment);
    pthread_mutex_lock(&script_lock);
    for (size_t i = 0; i < directive_count; i++) {
        has = has || strcmp(directives[i].text, text) == 0;
    }
    pthread_mutex_unlock(&script_lock);
    return has;
}

int standin_script_version(void)
{
    int version = STANDIN_VERSION;
    (void)pthread_once(&script_once, script_from_environment);
    pthread_mutex_lock(&script_lock);
    for (size_t i = 0; i < directive_count; i++) {
        if (strcmp(directives[i].event, "version") == 0) {
            version = (int)directives[i].number;
        }
    }
    pthread_mutex_unlock(&script_lock);
    return version;
}
