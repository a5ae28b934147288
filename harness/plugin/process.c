/* Purpose: the process that a plug-in is loaded into: asks it, and passes on what it emits.
 * Idea: nothing that it is given is of use to anybody else; memory, time and core files have
 * limits; answers are collected outside of the heap, so that what is left on the heap is the
 * plug-in's. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/plugin/wire.h"

enum { EXIT_NO_PARENT = 0, EXIT_NO_ROOM = 3, NODES_MAX = 65536 };

/* What is emitted for the present question. */
struct answering {
    struct harness_plugin_reply reply;
    struct ddprove_coll_step *steps; /* [HARNESS_PLUGIN_STEPS], not on the heap */
    bool is_too_long;
};
static struct answering answering; /* one process, one question at a time; sinks point to it */

static uint32_t take_scratch(void *context, uint32_t dtype, uint64_t count)
{
    struct answering *to = context;
    struct harness_plugin_reply *reply = &to->reply;

    if (reply->scratch_count >= HARNESS_PLUGIN_SCRATCH_MAX) {
        to->is_too_long = true;
        return DDPROVE_COLL_NONE;
    }
    reply->scratch[reply->scratch_count] = (struct harness_plugin_scratch){dtype, count};
    return reply->scratch_count++;
}

static uint32_t take_step(void *context, const struct ddprove_coll_step *step)
{
    struct answering *to = context;
    bool is_sent = step->kind == DDPROVE_COLL_SEND;

    if ((is_sent ? step->src.count : step->dst.count) == 0) {
        return DDPROVE_COLL_NONE;
    }
    if (to->reply.step_count >= HARNESS_PLUGIN_STEPS) {
        to->is_too_long = true;
        return DDPROVE_COLL_NONE;
    }
    to->steps[to->reply.step_count] = *step;
    return to->reply.step_count++;
}

static const struct ddprove_coll_sink sink = {sizeof(struct ddprove_coll_sink), &answering,
                                              take_scratch, take_step};

/* --- socket ----------------------------------------------------------------------------------- */

static bool receive(void *data, size_t size_bytes)
{
    size_t got = 0;

    while (got < size_bytes) {
        ssize_t count = recv(HARNESS_PLUGIN_FD, (char *)data + got, size_bytes - got, 0);

        if (count == 0 || (count < 0 && errno != EINTR)) {
            return false;
        }
        got += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool transmit(const void *data, size_t size_bytes)
{
    size_t sent = 0;

    while (sent < size_bytes) {
        ssize_t count =
            send(HARNESS_PLUGIN_FD, (const char *)data + sent, size_bytes - sent, MSG_NOSIGNAL);

        if (count < 0 && errno != EINTR) {
            return false;
        }
        sent += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* --- load ------------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    size_t length = name == NULL ? 0 : strlen(name);

    return length > 0 && length < sizeof answering.reply.text &&
           length < sizeof((struct harness_plugin_hello *)NULL)->name &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* What is wrong with it; "": nothing. */
static void judge(const struct ddprove_coll *plugin, const char *path, char *text,
                  size_t size_bytes)
{
    text[0] = '\0';
    if (plugin == NULL) {
        (void)snprintf(text, size_bytes,
                       "%s exports no ddprove_coll_plugin; ddprove coll new NAME writes one", path);
    } else if (plugin->version != DDPROVE_COLL_VERSION || plugin->struct_bytes < sizeof(*plugin)) {
        (void)snprintf(text, size_bytes,
                       "%s is made for version %u of ddprove_coll.h, this is %u; compile it again",
                       path, plugin->version, DDPROVE_COLL_VERSION);
    } else if (!is_name(plugin->name)) {
        (void)snprintf(text, size_bytes,
                       "%s: its name must be of 1 to 31 small letters, digits and _", path);
    } else if (plugin->kind >= (uint32_t)HARNESS_PLUGIN_KINDS || plugin->emit == NULL) {
        (void)snprintf(text, size_bytes, "%s: %s", path,
                       plugin->emit == NULL ? "emit is NULL" : "its kind is not known");
    }
}

/* The same of the other form. */
static void judge_opaque(const struct ddprove_coll_opaque *plugin, const char *path, char *text,
                         size_t size_bytes)
{
    bool has_calls = plugin->open != NULL &&
                     (plugin->run != NULL || (plugin->post != NULL && plugin->poll != NULL));

    text[0] = '\0';
    if (plugin->version != DDPROVE_COLL_OPAQUE_VERSION || plugin->struct_bytes < sizeof(*plugin)) {
        (void)snprintf(text, size_bytes,
                       "%s is made for version %u of ddprove_coll.h's opaque form, this is %u; "
                       "compile it again",
                       path, plugin->version, DDPROVE_COLL_OPAQUE_VERSION);
    } else if (!is_name(plugin->name)) {
        (void)snprintf(text, size_bytes,
                       "%s: its name must be of 1 to 31 small letters, digits and _", path);
    } else if (plugin->kind >= (uint32_t)HARNESS_PLUGIN_KINDS) {
        (void)snprintf(text, size_bytes, "%s: its kind is not known", path);
    } else if (!has_calls) {
        (void)snprintf(text, size_bytes, "%s: it needs open, and run or post and poll", path);
    }
}

static void load_opaque(const struct ddprove_coll_opaque *plugin, const char *path,
                        struct harness_plugin_hello *hello)
{
    judge_opaque(plugin, path, hello->text, sizeof hello->text);
    if (hello->text[0] == '\0') {
        hello->is_loaded = 1;
        hello->is_opaque = 1;
        hello->kind = plugin->kind;
        hello->claims = plugin->claims;
        hello->needs = plugin->needs;
        hello->has_abort = plugin->abort != NULL;
        (void)snprintf(hello->name, sizeof hello->name, "%s", plugin->name);
    }
}

/* NULL: none that answers questions about steps; *out_opaque: one of the other form, or NULL. */
static const struct ddprove_coll *load(const char *path, struct harness_plugin_hello *hello,
                                       const struct ddprove_coll_opaque **out_opaque)
{
    const struct ddprove_coll_opaque *opaque;
    const struct ddprove_coll *plugin = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        const char *why = dlerror();

        (void)snprintf(hello->text, sizeof hello->text, "%s", why != NULL ? why : path);
        return NULL;
    }
    plugin = dlsym(library, "ddprove_coll_plugin");
    opaque = plugin == NULL ? dlsym(library, "ddprove_coll_opaque_plugin") : NULL;
    if (opaque != NULL) {
        load_opaque(opaque, path, hello);
        *out_opaque = hello->is_loaded != 0 ? opaque : NULL;
        return NULL;
    }
    judge(plugin, path, hello->text, sizeof hello->text);
    if (plugin == NULL || hello->text[0] != '\0') {
        return NULL;
    }
    hello->is_loaded = 1;
    hello->kind = plugin->kind;
    hello->claims = plugin->claims;
    (void)snprintf(hello->name, sizeof hello->name, "%s", plugin->name);
    return plugin;
}

/* It ends with whoever asks, leaves no core file, and takes no more memory than a machine has. */
static void set_limits(void)
{
    const struct rlimit none = {0, 0};
    const struct rlimit memory = {HARNESS_PLUGIN_MEMORY, HARNESS_PLUGIN_MEMORY};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__)
    (void)setrlimit(RLIMIT_AS, &memory); /* sanitizers reserve more than any machine has */
#else
    (void)memory;
#endif
}

/* --- answer ----------------------------------------------------------------------------------- */

static void answer(const struct ddprove_coll *plugin, const struct ddprove_coll_question *question)
{
    struct harness_plugin_reply *reply = &answering.reply;
    size_t before, after;
    int refusal;

    memset(reply, 0, sizeof *reply);
    answering.is_too_long = false;
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    refusal = plugin->emit(question, &sink);
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    reply->magic = HARNESS_PLUGIN_MAGIC;
    reply->leaked_bytes = after > before ? after - before : 0;
    reply->is_answered = refusal == 0 && !answering.is_too_long;
    if (refusal != 0) {
        (void)snprintf(reply->text, sizeof reply->text, "emit returned %d", refusal);
    } else if (answering.is_too_long) {
        (void)snprintf(reply->text, sizeof reply->text,
                       "more than %u steps or %u scratch buffers were emitted",
                       HARNESS_PLUGIN_STEPS, HARNESS_PLUGIN_SCRATCH_MAX);
    }
    if (reply->is_answered == 0) {
        reply->step_count = 0;
    }
}

static int serve(const struct ddprove_coll *plugin)
{
    static uint32_t nodes[NODES_MAX];
    struct harness_plugin_ask ask;

    while (receive(&ask, sizeof ask)) {
        struct ddprove_coll_question question = ask.question;

        if (ask.magic != HARNESS_PLUGIN_MAGIC || question.size > NODES_MAX ||
            (ask.has_nodes != 0 && !receive(nodes, question.size * sizeof(uint32_t)))) {
            break;
        }
        question.node_of_rank = ask.has_nodes != 0 ? nodes : NULL;
        for (; question.rank < ask.rank_end; question.rank++) {
            answer(plugin, &question);
            if (!transmit(&answering.reply, sizeof answering.reply) ||
                !transmit(answering.steps, answering.reply.step_count * sizeof(*answering.steps))) {
                return EXIT_NO_PARENT;
            }
        }
    }
    return EXIT_NO_PARENT;
}

/* --- the other form --------------------------------------------------------------------------- */

/* In a world of one there is nobody to send to. */
static int host_send(void *context, uint32_t peer, const void *data, uint64_t bytes)
{
    (void)context;
    (void)peer;
    (void)data;
    (void)bytes;
    return (int)DDPROVE_COLL_FAILED;
}

static int host_recv(void *context, uint32_t peer, void *data, uint64_t bytes)
{
    return host_send(context, peer, data, bytes);
}

static void host_wait(void *context)
{
    (void)context;
}

static int reduce_alone(const struct ddprove_coll_opaque *plugin, uint32_t op, uint32_t dtype)
{
    const struct ddprove_coll_host host = {.struct_bytes = (uint32_t)sizeof host,
                                           .size = 1,
                                           .send = host_send,
                                           .recv = host_recv,
                                           .wait = host_wait};
    uint64_t input = 0; /* of any type */
    uint64_t output = 0;
    const struct ddprove_coll_call call = {.struct_bytes = (uint32_t)sizeof call,
                                           .dtype = dtype,
                                           .op = op,
                                           .count = 1,
                                           .input = &input,
                                           .output = &output};
    void *self = NULL;
    int result = plugin->open(&host, &self);

    if (result != (int)DDPROVE_COLL_OK) {
        return result;
    }
    if (plugin->run != NULL) {
        do {
            result = plugin->run(self, &call);
        } while (result == (int)DDPROVE_COLL_AGAIN);
        return result;
    }
    result = plugin->post(self, &call);
    while (result == (int)DDPROVE_COLL_OK || result == (int)DDPROVE_COLL_AGAIN) {
        result = plugin->poll(self);
        if (result == (int)DDPROVE_COLL_OK) {
            break;
        }
    }
    return result;
}

static int serve_opaque(const struct ddprove_coll_opaque *plugin)
{
    struct harness_plugin_reply *reply = &answering.reply;
    struct harness_plugin_ask ask;

    while (receive(&ask, sizeof ask) && ask.magic == HARNESS_PLUGIN_MAGIC) {
        memset(reply, 0, sizeof *reply);
        reply->magic = HARNESS_PLUGIN_MAGIC;
        reply->is_refused =
            reduce_alone(plugin, ask.op, ask.question.dtype) == (int)DDPROVE_COLL_UNSUPPORTED;
        reply->is_answered = 1;
        if (!transmit(reply, sizeof *reply)) {
            break;
        }
    }
    return EXIT_NO_PARENT;
}

int harness_plugin_main(const char *path)
{
    struct harness_plugin_hello hello = {.magic = HARNESS_PLUGIN_MAGIC};
    const struct ddprove_coll_opaque *opaque = NULL;
    const struct ddprove_coll *plugin;
    void *room = mmap(NULL, HARNESS_PLUGIN_STEPS * sizeof(*answering.steps), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (room == MAP_FAILED) {
        return EXIT_NO_ROOM;
    }
    answering.steps = room;
    set_limits();
    plugin = load(path, &hello, &opaque);
    if (!transmit(&hello, sizeof hello)) {
        return EXIT_NO_PARENT;
    }
    return plugin != NULL ? serve(plugin) : opaque != NULL ? serve_opaque(opaque) : EXIT_NO_PARENT;
}
