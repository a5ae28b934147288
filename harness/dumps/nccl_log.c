/* Lines that NCCL_DEBUG=INFO prints with NCCL_DEBUG_SUBSYS=INIT,COLL: who is which rank of which
 * communicator, and every call with its count, type, reduction and root. A communicator is a
 * pointer, different in each process: INIT lines tie them together by their id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/dumps/read.h"

/* A communicator as one process knows it. */
struct harness_diag_nccl {
    struct harness_diag_nccl *next;
    char process[128]; /* "host:pid" */
    unsigned long long pointer;
    int64_t rank; /* -1: no line has said */
    char id[40];  /* "" */
    int64_t calls;
};

static const char *datatype_name(int number)
{
    static const char *const names[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                        "uint64", "float16", "float32", "float64", "bfloat16"};

    return number >= 0 && number < 10 ? names[number] : "";
}

static const char *redop_name(int number)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg"};

    return number >= 0 && number < 5 ? names[number] : "";
}

static struct harness_diag_nccl *find_comm(struct harness_diag_lines *lines, const char *process,
                                           unsigned long long pointer)
{
    struct harness_diag_nccl *comm;

    for (comm = lines->nccl; comm != NULL; comm = comm->next) {
        if (comm->pointer == pointer && strcmp(comm->process, process) == 0) {
            return comm;
        }
    }
    comm = ddp_mem_array(lines->evidence->mem, 1, sizeof *comm);
    if (comm == NULL) {
        lines->evidence->is_failed = true;
        return NULL;
    }
    (void)snprintf(comm->process, sizeof comm->process, "%s", process);
    comm->pointer = pointer;
    comm->rank = -1;
    comm->next = lines->nccl;
    lines->nccl = comm;
    return comm;
}

/* "ncclCommInitRank comm 0x55 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xab - Init" */
static bool take_init(struct harness_diag_lines *lines, const char *process, const char *text)
{
    const char *found = strstr(text, " comm 0x");
    const char *id = strstr(text, "commId 0x");
    unsigned long long pointer = 0;
    long long rank = -1;
    long long ranks = 0;
    struct harness_diag_nccl *comm;

    if (found == NULL ||
        sscanf(found, " comm 0x%llx rank %lld nranks %lld", &pointer, &rank, &ranks) != 3 ||
        rank < 0 || rank >= (long long)HARNESS_WORLD_MAX || ranks <= 0 ||
        ranks > (long long)HARNESS_WORLD_MAX) {
        return false;
    }
    comm = find_comm(lines, process, pointer);
    if (comm == NULL) {
        return true;
    }
    comm->rank = rank;
    if (id != NULL) {
        (void)sscanf(id, "commId %39s", comm->id);
        {
            size_t group = harness_diag_group(
                lines->evidence,
                harness_diag_keep_format(lines->evidence, "NCCL communicator %s", comm->id), "");

            if (group != SIZE_MAX) {
                lines->evidence->groups[group].is_local =
                    lines->line_rank >= 0 && lines->line_rank != rank;
                for (uint32_t i = 0; i < (uint32_t)ranks; i++) {
                    harness_rank_set_add(&lines->evidence->groups[group].ranks, i);
                }
                lines->evidence->groups[group].is_complete = true;
            }
        }
    }
    return true;
}

static struct harness_diag_record *record_of(struct harness_diag_lines *lines, uint32_t rank)
{
    struct harness_diag_evidence *evidence = lines->evidence;

    for (size_t i = 0; i < evidence->record_count; i++) {
        if (evidence->records[i].rank == rank && evidence->records[i].is_log &&
            strcmp(evidence->records[i].file, lines->file) == 0) {
            return &evidence->records[i];
        }
    }
    return harness_diag_record_add(evidence, rank, lines->file);
}

static void add_call(struct harness_diag_lines *lines, struct harness_diag_nccl *comm,
                     const char *kind, unsigned long long count, int datatype, int op, int root)
{
    struct harness_diag_evidence *evidence = lines->evidence;
    int64_t rank = comm->rank >= 0 ? comm->rank : lines->line_rank;
    bool is_reducing = strstr(kind, "Reduce") != NULL;
    bool has_root = strcmp(kind, "Broadcast") == 0 || strcmp(kind, "Reduce") == 0 ||
                    strcmp(kind, "Gather") == 0 || strcmp(kind, "Scatter") == 0;
    struct harness_diag_call call = {.seq = ++comm->calls,
                                     .order = lines->line,
                                     .kind = harness_diag_keep(evidence, kind),
                                     .peer = -1,
                                     .root = has_root ? root : -1,
                                     .redop = is_reducing ? redop_name(op) : "",
                                     .counts = harness_diag_keep_format(evidence, "%llu", count),
                                     .dtype = datatype_name(datatype),
                                     .site = "",
                                     .place = {lines->file, lines->line, -1}};
    struct harness_diag_record *record;
    struct harness_diag_part *part;
    size_t group;

    if (rank < 0) {
        harness_diag_note(evidence, HARNESS_DIAG_NOTE_AUDIT, -1, 0, call.place,
                          "calls of an NCCL communicator that no INIT line ties to a rank; set "
                          "NCCL_DEBUG_SUBSYS=INIT,COLL");
        return;
    }
    group = harness_diag_group(
        evidence,
        comm->id[0] != '\0' ? harness_diag_keep_format(evidence, "NCCL communicator %s", comm->id)
                            : "NCCL communicator",
        "");
    record = record_of(lines, (uint32_t)rank);
    if (record == NULL) {
        return;
    }
    record->is_log = true;
    part = harness_diag_record_part(evidence, record, group);
    if (part != NULL) {
        harness_diag_call_add(evidence, part, &call);
    }
}

bool harness_diag_nccl_line(struct harness_diag_lines *lines, const char *text)
{
    const char *info = strstr(text, " NCCL INFO ");
    unsigned long long count = 0;
    unsigned long long pointer = 0;
    struct harness_diag_nccl *comm;
    char process[128];
    char kind[32];
    int datatype = 0;
    int op = 0;
    int root = 0;
    int tail = 0;

    if (info == NULL) {
        return false;
    }
    (void)snprintf(process, sizeof process, "%.*s", (int)strcspn(text, " "), text);
    if (strchr(process, ':') != NULL && strrchr(process, ':') != strchr(process, ':')) {
        *strrchr(process, ':') = '\0'; /* the thread */
    }
    if (strstr(info, "ncclCommInit") != NULL && take_init(lines, process, info)) {
        return true;
    }
    if (sscanf(info,
               " NCCL INFO %31[A-Za-z]: opCount %*x sendbuff %*s recvbuff %*s count %llu datatype "
               "%d op %d root %d comm 0x%llx%n",
               kind, &count, &datatype, &op, &root, &pointer, &tail) == 6 &&
        tail > 0) {
        comm = find_comm(lines, process, pointer);
        if (comm != NULL && strcmp(kind, "Send") != 0 && strcmp(kind, "Recv") != 0) {
            add_call(lines, comm, kind, count, datatype, op, root);
        }
        return true;
    }
    return false;
}
