/* The environments of torchrun, Open MPI, Slurm and PMI, and Slurm's node lists. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/store/node_list.h"
#include "ddpcore/store/store.h"
#include "tests/ct.h"

#define MASTER      "MASTER_ADDR=host MASTER_PORT=29500 "
#define TORCHRUN    "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 "
#define OPEN_MPI    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 "
#define OPEN_MPI_1  OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=206569473 "
#define SLURM       "SLURM_PROCID=5 SLURM_NTASKS=6 SLURM_LOCALID=1 SLURM_JOB_ID=1234567 "
#define SLURM_NODES SLURM "SLURM_JOB_NODELIST=tux[07-09,12],cat "
#define PMI         "PMI_RANK=7 PMI_SIZE=8 "
#define PMI_1       PMI "MPI_LOCALRANKID=7 MPI_LOCALNRANKS=8 PMI_JOBID=kvs_17 "

/* context: "NAME=value NAME=value "; values hold no space. */
static const char *lookup(void *context, const char *name)
{
    static char value[600];
    const char *at = context;
    size_t name_size = strlen(name);

    while (*at != '\0') {
        size_t size = strcspn(at, " ");

        if (strncmp(at, name, name_size) == 0 && at[name_size] == '=') {
            (void)snprintf(value, sizeof(value), "%.*s", (int)(size - name_size - 1),
                           at + name_size + 1);
            return value;
        }
        at += size + strspn(at + size, " ");
    }
    return NULL;
}

static ddp_status parse(const char *environment, struct ddp_rendezvous *out, struct ddp_err *err)
{
    char copy[2048];

    (void)snprintf(copy, sizeof(copy), "%s", environment);
    return ddp_rendezvous_parse(lookup, copy, out, err);
}

static unsigned hashed_port(const char *job)
{
    return DDP_RENDEZVOUS_PORT_FIRST + (unsigned)(ddp_hash_text(job) % DDP_RENDEZVOUS_PORT_COUNT);
}

static void check(const char *environment, const char *expected)
{
    struct ddp_rendezvous out;
    struct ddp_err err = {""};
    char got[512];

    if (parse(environment, &out, &err) != DDP_OK) {
        CT_FAIL("%s: %s", environment, err.text);
        return;
    }
    (void)snprintf(got, sizeof(got), "%s %u/%u local %u at %s:%u", out.source, out.rank,
                   out.world_size, out.local_rank, out.master_addr, out.master_port);
    CT_CHECK_STR(got, expected);
}

/* Each launcher's environment by itself, with and without MASTER_*. */
CT_TEST(rendezvous, one_environment)
{
    char expected[128];

    check(MASTER TORCHRUN, "torchrun 1/2 local 0 at host:29500");
    check(MASTER "RANK=1 WORLD_SIZE=2 ", "torchrun 1/2 local 1 at host:29500");
    check(MASTER OPEN_MPI, "Open MPI 3/4 local 2 at host:29500");
    check(MASTER SLURM, "Slurm 5/6 local 1 at host:29500");
    check(MASTER PMI, "PMI 7/8 local 7 at host:29500");
    check(SLURM_NODES, "Slurm 5/6 local 1 at tux07:19567");
    check(SLURM_NODES "SLURM_STEP_NODELIST=cat ", "Slurm 5/6 local 1 at cat:19567");
    check(SLURM_NODES "MASTER_ADDR=dog ", "Slurm 5/6 local 1 at dog:19567");
    check(SLURM_NODES "MASTER_PORT=29501 ", "Slurm 5/6 local 1 at tux07:29501");
    (void)snprintf(expected, sizeof(expected), "Open MPI 3/4 local 2 at 127.0.0.1:%u",
                   hashed_port("206569473"));
    check(OPEN_MPI_1, expected);
    (void)snprintf(expected, sizeof(expected), "PMI 7/8 local 7 at 127.0.0.1:%u",
                   hashed_port("kvs_17"));
    check(PMI_1, expected);
}

/* Any two or more groups together: the first complete one in the order of the table counts. */
CT_TEST(rendezvous, order_of_environments)
{
    static const char *const parts[] = {TORCHRUN, OPEN_MPI, SLURM, PMI};
    static const char *const results[] = {
        "torchrun 1/2 local 0 at host:29500", "Open MPI 3/4 local 2 at host:29500",
        "Slurm 5/6 local 1 at host:29500", "PMI 7/8 local 7 at host:29500"};

    for (unsigned set = 1; set < 16; set++) {
        char environment[1024] = MASTER;
        unsigned first = 0;

        while ((set >> first & 1) == 0) {
            first++;
        }
        for (unsigned i = 4; i-- > 0;) { /* how they lie in the environment does not matter */
            if ((set >> i & 1) != 0) {
                strncat(environment, parts[i], sizeof(environment) - strlen(environment) - 1);
            }
        }
        check(environment, results[first]);
    }
}

/* A group of which one variable is missing is skipped if a later one is complete; an empty variable
 * counts as not set. */
CT_TEST(rendezvous, half_environments)
{
    check(MASTER "RANK=0 " OPEN_MPI, "Open MPI 3/4 local 2 at host:29500");
    check(MASTER "WORLD_SIZE=9 " PMI, "PMI 7/8 local 7 at host:29500");
    check(MASTER "RANK= WORLD_SIZE=2 " SLURM, "Slurm 5/6 local 1 at host:29500");
    check(MASTER "OMPI_COMM_WORLD_RANK=0 SLURM_PROCID=1 " TORCHRUN,
          "torchrun 1/2 local 0 at host:29500");
    check(MASTER "LOCAL_RANK= RANK=1 WORLD_SIZE=2 ", "torchrun 1/2 local 1 at host:29500");
}

CT_TEST(rendezvous, agent_store)
{
    struct ddp_rendezvous out;
    struct ddp_err err = {""};

    CT_CHECK_OK(parse(MASTER OPEN_MPI "TORCHELASTIC_USE_AGENT_STORE=True ", &out, &err));
    CT_CHECK(out.is_agent_store);
    CT_CHECK_OK(parse(MASTER TORCHRUN "TORCHELASTIC_USE_AGENT_STORE=1 ", &out, &err));
    CT_CHECK(out.is_agent_store);
    CT_CHECK_OK(parse(MASTER TORCHRUN "TORCHELASTIC_USE_AGENT_STORE=0 ", &out, &err));
    CT_CHECK(!out.is_agent_store);
}

/* What is wrong or missing is named with its launcher. */
CT_TEST(rendezvous, refuses)
{
    static const struct {
        const char *environment;
        ddp_status status;
        const char *words[2];
    } rows[] = {
        {"", DDP_E_NOT_FOUND, {"RANK", "mpirun"}},
        {MASTER, DDP_E_NOT_FOUND, {"WORLD_SIZE", "torchrun"}},
        {"RANK=0 ", DDP_E_NOT_FOUND, {"WORLD_SIZE is not set", "torchrun"}},
        {"WORLD_SIZE=2 ", DDP_E_NOT_FOUND, {"RANK is not set", "torchrun"}},
        {"SLURM_NTASKS=2 PMI_RANK=0 ", DDP_E_NOT_FOUND, {"SLURM_PROCID", "Slurm"}},
        {"PMI_RANK=0 ", DDP_E_NOT_FOUND, {"PMI_SIZE", "PMI"}},
        {TORCHRUN, DDP_E_NOT_FOUND, {"MASTER_ADDR", "torchrun"}},
        {TORCHRUN "MASTER_ADDR=a ", DDP_E_NOT_FOUND, {"MASTER_PORT", "torchrun"}},
        {MASTER "RANK=x WORLD_SIZE=2 ", DDP_E_PARSE, {"RANK=x", "torchrun"}},
        {MASTER "RANK=-1 WORLD_SIZE=2 ", DDP_E_PARSE, {"RANK=-1", "torchrun"}},
        {MASTER "RANK=2 WORLD_SIZE=2 ", DDP_E_PARSE, {"RANK=2", "not below"}},
        {MASTER "RANK=0 WORLD_SIZE=0 ", DDP_E_PARSE, {"not below", "WORLD_SIZE=0"}},
        {MASTER "RANK=0 WORLD_SIZE=2147483648 ",
         DDP_E_PARSE,
         {"WORLD_SIZE=2147483648", "2147483647"}},
        {MASTER "RANK=18446744073709551616 WORLD_SIZE=2 ", DDP_E_PARSE, {"RANK=", "torchrun"}},
        {TORCHRUN "MASTER_ADDR=a MASTER_PORT=0 ", DDP_E_PARSE, {"MASTER_PORT=0", "torchrun"}},
        {TORCHRUN "MASTER_ADDR=a MASTER_PORT=65536 ", DDP_E_PARSE, {"MASTER_PORT=65536", "65535"}},
        {MASTER "RANK=0 WORLD_SIZE=2 LOCAL_RANK=a ", DDP_E_PARSE, {"LOCAL_RANK=a", "torchrun"}},
        {MASTER "OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4 ",
         DDP_E_PARSE,
         {"OMPI_COMM_WORLD_RANK=4", "Open MPI"}},
        {MASTER "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=+1 ",
         DDP_E_PARSE,
         {"OMPI_COMM_WORLD_SIZE=+1", "Open MPI"}},
        {OPEN_MPI, DDP_E_NOT_FOUND, {"MASTER_ADDR", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
        {OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 ", DDP_E_NOT_FOUND, {"2 of 4 ranks", "Open MPI"}},
        {OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=many ", DDP_E_PARSE, {"many", "Open MPI"}},
        {OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 ",
         DDP_E_NOT_FOUND,
         {"MASTER_PORT", "PMIX_NAMESPACE"}},
        {SLURM, DDP_E_NOT_FOUND, {"SLURM_STEP_NODELIST", "Slurm"}},
        {SLURM "SLURM_JOB_NODELIST=tux[ ", DDP_E_PARSE, {"SLURM_JOB_NODELIST", "number"}},
        {"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_NODELIST=a SLURM_JOB_ID=7x ",
         DDP_E_PARSE,
         {"SLURM_JOB_ID=7x", "Slurm"}},
        {"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_NODELIST=a ",
         DDP_E_NOT_FOUND,
         {"MASTER_PORT", "SLURM_JOB_ID"}},
        {PMI, DDP_E_NOT_FOUND, {"MASTER_ADDR", "MPI_LOCALNRANKS"}},
        {PMI "MPI_LOCALNRANKS=8 ", DDP_E_NOT_FOUND, {"MASTER_PORT", "PMI_JOBID"}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ddp_rendezvous out;
        struct ddp_err err = {""};
        ddp_status status = parse(rows[i].environment, &out, &err);

        if (status != rows[i].status) {
            CT_FAIL("\"%s\": %s, not %s", rows[i].environment, ddp_status_name(status),
                    ddp_status_name(rows[i].status));
        }
        for (size_t k = 0; k < 2; k++) {
            if (rows[i].words[k] != NULL && strstr(err.text, rows[i].words[k]) == NULL) {
                CT_FAIL("\"%s\": \"%s\" does not say \"%s\"", rows[i].environment, err.text,
                        rows[i].words[k]);
            }
        }
    }
}

/* An address of 255 bytes fits, a longer one is refused, from either source. */
CT_TEST(rendezvous, long_addresses)
{
    char environment[1024];
    char address[257];
    struct ddp_rendezvous out;
    struct ddp_err err = {""};

    memset(address, 'a', 256);
    address[256] = '\0';
    for (size_t size = 255; size <= 256; size++) {
        ddp_status expected = size == 255 ? DDP_OK : DDP_E_PARSE;

        (void)snprintf(environment, sizeof(environment), TORCHRUN "MASTER_PORT=1 MASTER_ADDR=%.*s ",
                       (int)size, address);
        CT_CHECK_STATUS(parse(environment, &out, &err), expected);
        (void)snprintf(environment, sizeof(environment), SLURM "SLURM_JOB_NODELIST=%.*s[1-2] ",
                       (int)size - 1, address);
        CT_CHECK_STATUS(parse(environment, &out, &err), expected);
    }
}

/* Node lists: the first host as it is written, or where the list is wrong. */
CT_TEST(rendezvous, node_lists)
{
    static const struct {
        const char *list;
        const char *host; /* NULL: refused */
        size_t at;        /* character at which it is */
    } rows[] = {
        {"node", "node", 0},
        {"a,b,c", "a", 0},
        {"node7", "node7", 0},
        {"node[03-05,9],other", "node03", 0},
        {"node[9,03-05]", "node9", 0},
        {"node[001]", "node001", 0},
        {"rack[1-2]-n[01-40],x", "rack1-n01", 0},
        {"n[1-2].cluster.example", "n1.cluster.example", 0},
        {"[5-6]", "5", 0},
        {"10.0.0.[1-4]", "10.0.0.1", 0},
        {"a_b-c.d", "a_b-c.d", 0},
        {"n[000000000000000001]", "n000000000000000001", 0},
        {"n[3-3]", "n3", 0},
        {"", NULL, 1},
        {",", NULL, 1},
        {"a,", NULL, 3},
        {",a", NULL, 1},
        {"a,,b", NULL, 3},
        {"a[", NULL, 3},
        {"a[]", NULL, 3},
        {"a]", NULL, 2},
        {"a[1", NULL, 4},
        {"a[1-", NULL, 5},
        {"a[1-]", NULL, 5},
        {"a[-1]", NULL, 3},
        {"a[1,]", NULL, 5},
        {"a[,1]", NULL, 3},
        {"a[1-2-3]", NULL, 6},
        {"a[2-1]", NULL, 5},
        {"a[x]", NULL, 3},
        {"a[1x]", NULL, 4},
        {"a[[1]]", NULL, 3},
        {"a[0000000000000000001]", NULL, 3},
        {"a[1-9999999999999999999]", NULL, 5},
        {"a b", NULL, 2},
        {"a;b", NULL, 2},
        {"a,b[", NULL, 5},
        {"a,b[2-1]", NULL, 7},
        {"a,b/c", NULL, 4},
        {"\xc3\xa4", NULL, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ddp_err err = {""};
        char host[32] = "";
        char place[32];
        ddp_status status = ddp_node_list_first(rows[i].list, host, sizeof(host), &err);

        if (rows[i].host != NULL) {
            CT_CHECK_OK(status);
            CT_CHECK_STR(host, rows[i].host);
            continue;
        }
        (void)snprintf(place, sizeof(place), "at character %zu:", rows[i].at);
        if (status != DDP_E_PARSE || strstr(err.text, place) == NULL) {
            CT_FAIL("\"%s\": %s \"%s\", not %s", rows[i].list, ddp_status_name(status), err.text,
                    place);
        }
    }
}

/* Every list of up to five of these characters: accepted lists give a host of host letters only,
 * and stay accepted with one more host behind. */
CT_TEST(rendezvous, node_lists_of_all_shapes)
{
    static const char letters[] = "a1-,[]";
    enum { LETTERS = 6, LIST_SIZE = 5 };
    size_t accepted = 0;

    for (size_t size = 1; size <= LIST_SIZE; size++) {
        size_t count = 1;

        for (size_t i = 0; i < size; i++) {
            count *= LETTERS;
        }
        for (size_t n = 0; n < count; n++) {
            char list[LIST_SIZE + 3] = "";
            char host[16];
            char longer[16];
            size_t rest = n;

            for (size_t i = 0; i < size; i++) {
                list[i] = letters[rest % LETTERS];
                rest /= LETTERS;
            }
            if (ddp_node_list_first(list, host, sizeof(host), NULL) != DDP_OK) {
                continue;
            }
            accepted++;
            CT_CHECK(host[0] != '\0' && host[strspn(host, "a1-")] == '\0');
            list[size] = ',';
            list[size + 1] = 'a';
            CT_CHECK_OK(ddp_node_list_first(list, longer, sizeof(longer), NULL));
            CT_CHECK_STR(longer, host);
        }
    }
    CT_CHECK(accepted > 300);
}
