/* Opening libraries that are missing, too old, or not whole; and the real one where it is. */
#include <string.h>

#include "ddpcore/nccl/abi.h"
#include "tests/ct.h"

static void check_refused(const char *path, ddp_status status, const char *text)
{
    struct ddp_nccl_library *library = NULL;
    struct ddp_err err = {""};

    CT_CHECK_STATUS(ddp_nccl_library_open(ddp_mem_system(), path, &library, &err), status);
    CT_CHECK(library == NULL);
    if (strstr(err.text, text) == NULL) {
        CT_FAIL("\"%s\" does not say \"%s\"", err.text, text);
    }
}

CT_TEST(nccl_library, what_is_no_nccl_is_refused_with_a_reason)
{
    check_refused("/nowhere/libnccl.so.2", DDP_E_NOT_FOUND, "/nowhere/libnccl.so.2");
    check_refused(NCCL_OLD_PATH, DDP_E_UNSUPPORTED, "is NCCL 2.18.6; ");
    check_refused(NCCL_OLD_PATH, DDP_E_UNSUPPORTED, "need 2.19 or newer");
    check_refused(NCCL_PARTIAL_PATH, DDP_E_NOT_FOUND, "lacks ncclGetUniqueId");
    check_refused(NCCL_EMPTY_PATH, DDP_E_NOT_FOUND, "lacks ncclGetVersion");
}

CT_TEST(nccl_library, memory_may_run_out)
{
    struct ddp_nccl_library *library = NULL;
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    ddp_mem_pool_fail_after(pool, 0, -1);
    CT_CHECK_STATUS(ddp_nccl_library_open(ddp_mem_pool_mem(pool), NCCL_OLD_PATH, &library, &err),
                    DDP_E_NOMEM);
    ddp_mem_pool_destroy(pool);
    ddp_nccl_library_close(NULL);
}
