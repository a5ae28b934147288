/* The real NCCL under the adapter, without a GPU: it is found by its second names, and its refusal
 * to make a communicator comes back as it is. */
#include <stdio.h>
#include <string.h>

#include "tests/standin/nccl/functions.h"

int main(void)
{
    struct standin_comm *comm = NULL;
    struct standin_id id;
    int version = 0;
    int result;

    if (ncclGetVersion(&version) != STANDIN_SUCCESS || ncclGetUniqueId(&id) != STANDIN_SUCCESS) {
        (void)printf("NCCL has no id for us\n");
        return 1;
    }
    result = ncclCommInitRank(&comm, 1, id, 0);
    if (result == STANDIN_SUCCESS) {
        result = ncclCommDestroy(comm);
        (void)printf("version %d, made and destroyed: %d\n", version, result);
        return result;
    }
    (void)printf("version %d, refused: %s\n", version, ncclGetErrorString(result));
    return ncclGroupStart() == STANDIN_SUCCESS && ncclGroupEnd() == STANDIN_SUCCESS &&
                   strstr(ncclGetErrorString(result), "cuda") != NULL
               ? 0
               : 1;
}
