/* The error mapping against the real NCCL, which loads without a GPU.
 *
 *   nccl_real id    ncclGetUniqueId; prints its status and NCCL's text
 *   nccl_real init  ncclCommInitRankConfig for a world of one; the same
 * Exit: 0; 2 wrong usage; 77 there is no libnccl here, or (init) there is a device after all. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/nccl/comm.h"

static int report(ddp_status status, const struct ddp_err *err)
{
    printf("%s: %s\n", ddp_status_name(status), err->text);
    return 0;
}

static int try_init(struct ddp_nccl_library *library)
{
    struct ddp_nccl_comm_config config = {.library = library,
                                          .clock = ddp_clock_monotonic(),
                                          .member = 0,
                                          .member_count = 1,
                                          .init_timeout_ns = 20 * DDP_NS_PER_S,
                                          .end_timeout_ns = 20 * DDP_NS_PER_S};
    uint8_t id[DDP_NCCL_ID_BYTES];
    struct ddp_nccl_comm *comm = NULL;
    struct ddp_err err = {""};
    ddp_status status = ddp_nccl_unique_id(library, id, &err);

    if (status == DDP_OK) {
        memcpy(config.id.internal, id, sizeof(id));
        status = ddp_nccl_comm_create(&config, &comm, &err);
    }
    if (comm == NULL) {
        return report(status, &err);
    }
    while ((status = ddp_nccl_comm_poll(comm)) == DDP_PENDING) {
    }
    (void)ddp_err_set(&err, status, "%s", ddp_nccl_comm_error(comm));
    ddp_nccl_comm_abort(comm);
    while (ddp_nccl_comm_state(comm) != DDP_NCCL_COMM_GONE) {
        (void)ddp_nccl_comm_poll(comm);
    }
    ddp_nccl_comm_destroy(comm);
    if (status == DDP_OK) {
        printf("there is a device here: nothing to refuse\n");
        return 77;
    }
    return report(status, &err);
}

int main(int argc, char **argv)
{
    struct ddp_nccl_library *library = NULL;
    struct ddp_err err = {""};
    ddp_status status;
    int code = 2;

    status = ddp_nccl_library_open(ddp_mem_system(), NULL, &library, &err);
    if (status != DDP_OK) {
        printf("%s\n", err.text);
        return status == DDP_E_NOT_FOUND ? 77 : 1;
    }
    printf("NCCL %u, revoke %d, shrink %d\n", ddp_nccl_library_version(library),
           library->calls.revoke != NULL, library->calls.shrink != NULL);
    if (argc == 2 && strcmp(argv[1], "id") == 0) {
        uint8_t id[DDP_NCCL_ID_BYTES];

        status = ddp_nccl_unique_id(library, id, &err);
        code = report(status, &err);
    } else if (argc == 2 && strcmp(argv[1], "init") == 0) {
        code = try_init(library);
    } else {
        fprintf(stderr, "usage: nccl_real id|init\n");
    }
    ddp_nccl_library_close(library);
    return code;
}
