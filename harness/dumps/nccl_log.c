/* Lines that NCCL_DEBUG=INFO prints with NCCL_DEBUG_SUBSYS=INIT,COLL: who is which rank of which
 * communicator, and every call with its count, type, reduction and root. A communicator is a
 * pointer, different in each process: INIT lines tie them together by their id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/dumps/read.h"
#include "harness/dumps/scan.h"

/* A communicator as one process knows it. */
struct harness_diag_nccl {
    struct harness_diag_nccl *next;
    char process[128]; /* "host:pid" */
    uint64_t pointer;
    int64_t rank; /* -1: no line has said */
    char id[40];  /* "" */
    int64_t calls;
};

static const char *datatype_name(int64_t number)
{
    static const char *const names[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                        "uint64", "float16", "float32", "float64", "bfloat16"};

    return number >= 0 && number < 10 ? names[number] : "";
}

static const char *redop_name(int64_t number)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg"};

    return number >= 0 && number < 5 ? names[number] : "";
}

static struct harness_diag_nccl *find_comm(struct harness_diag_lines *lines, const char *process,
                                           uint64_t pointer)
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

/* " comm 0x55 rank 1 nranks 4" */
static bool scan_init(const char *at, uint64_t *out_pointer, int64_t *out_rank, int64_t *out_ranks)
{
    return harness_scan_text(&at, " comm 0x") && harness_scan_hex(&at, out_pointer) &&
           harness_scan_text(&at, " rank ") && harness_scan_i64(&at, out_rank) &&
           harness_scan_text(&at, " nranks ") && harness_scan_i64(&at, out_ranks);
}

/* "ncclCommInitRank comm 0x55 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xab - Init" */
static bool take_init(struct harness_diag_lines *lines, const char *process, const char *text)
{
    const char *found = strstr(text, " comm 0x");
    const char *id = strstr(text, "commId 0x");
    uint64_t pointer = 0;
    int64_t rank = -1;
    int64_t ranks = 0;
    struct harness_diag_nccl *comm;

    if (found == NULL || !scan_init(found, &pointer, &rank, &ranks) || rank < 0 ||
        rank >= HARNESS_WORLD_MAX || ranks <= 0 || ranks > HARNESS_WORLD_MAX) {
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

/* A call as a line has it. */
struct nccl_call {
    char kind[32];
    uint64_t count, pointer;
    int64_t datatype, op, root;
};

/* " NCCL INFO AllReduce: opCount 1 sendbuff 0x7f recvbuff 0x7f count 16 datatype 7 op 0 root 0 comm
 * 0x55 ..." */
static bool scan_call(const char *at, struct nccl_call *out)
{
    uint64_t number = 0;

    if (!harness_scan_text(&at, " NCCL INFO ") ||
        !harness_scan_of(&at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", out->kind,
                         sizeof out->kind) ||
        !harness_scan_text(&at, ": opCount ") || !harness_scan_hex(&at, &number) ||
        !harness_scan_text(&at, " sendbuff ") || !harness_scan_skip_word(&at) ||
        !harness_scan_text(&at, " recvbuff ") || !harness_scan_skip_word(&at)) {
        return false;
    }
    return harness_scan_text(&at, " count ") && harness_scan_u64(&at, &out->count) &&
           harness_scan_text(&at, " datatype ") && harness_scan_i64(&at, &out->datatype) &&
           harness_scan_text(&at, " op ") && harness_scan_i64(&at, &out->op) &&
           harness_scan_text(&at, " root ") && harness_scan_i64(&at, &out->root) &&
           harness_scan_text(&at, " comm 0x") && harness_scan_hex(&at, &out->pointer);
}

static void add_call(struct harness_diag_lines *lines, struct harness_diag_nccl *comm,
                     const struct nccl_call *told)
{
    struct harness_diag_evidence *evidence = lines->evidence;
    const char *kind = told->kind;
    int64_t rank = comm->rank >= 0 ? comm->rank : lines->line_rank;
    bool is_reducing = strstr(kind, "Reduce") != NULL;
    bool has_root = strcmp(kind, "Broadcast") == 0 || strcmp(kind, "Reduce") == 0 ||
                    strcmp(kind, "Gather") == 0 || strcmp(kind, "Scatter") == 0;
    struct harness_diag_call call = {
        .seq = ++comm->calls,
        .order = lines->line,
        .kind = harness_diag_keep(evidence, kind),
        .peer = -1,
        .root = has_root ? told->root : -1,
        .redop = is_reducing ? redop_name(told->op) : "",
        .counts = harness_diag_keep_format(evidence, "%llu", (unsigned long long)told->count),
        .dtype = datatype_name(told->datatype),
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
    struct harness_diag_nccl *comm;
    struct nccl_call call;
    char process[128];

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
    if (!scan_call(info, &call)) {
        return false;
    }
    comm = find_comm(lines, process, call.pointer);
    if (comm != NULL && strcmp(call.kind, "Send") != 0 && strcmp(call.kind, "Recv") != 0) {
        add_call(lines, comm, &call);
    }
    return true;
}
