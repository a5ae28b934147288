/* Fuzz target: any bytes as a shared object whose symbols are asked for. */
#include <stdint.h>
#include <stdlib.h>

#include "harness/scenario/exports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    bool is_first = harness_bytes_export(data, size_bytes, "ddprove_coll_plugin");

    if (is_first != harness_bytes_export(data, size_bytes, "ddprove_coll_plugin")) {
        abort();
    }
    (void)harness_bytes_export(data, size_bytes, "ddprove_coll_opaque_plugin");
    return 0;
}
