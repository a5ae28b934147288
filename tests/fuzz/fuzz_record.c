/* Fuzz target: any bytes as the record of a guest's job, as they are and with a right digest at
 * their end. The reader may refuse them, in one line with its place; what it accepts must print as
 * a record that reads back as the same text, and something follows from it. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_round_trip(const struct harness_watch_record *record, struct ddp_mem *mem)
{
    struct harness_watch_record again;
    struct ddp_text first;
    struct ddp_text second;
    struct ddp_err err = {{0}};

    ddp_text_init(&first, mem);
    ddp_text_init(&second, mem);
    harness_watch_record_print(record, &first);
    check(harness_watch_record_parse(mem, ddp_text_str(&first), first.size_bytes, &again, &err) ==
          DDP_OK);
    harness_watch_record_print(&again, &second);
    check(strcmp(ddp_text_str(&first), ddp_text_str(&second)) == 0);
}

static void check_record(const char *text, size_t size_bytes)
{
    struct harness_watch_record record;
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {{0}};
    unsigned line = 0;
    unsigned column = 0;
    ddp_status status;

    check(ddp_mem_pool_create(&pool) == DDP_OK);
    status = harness_watch_record_parse(ddp_mem_pool_mem(pool), text, size_bytes, &record, &err);
    if (status == DDP_OK) {
        check_round_trip(&record, ddp_mem_pool_mem(pool));
        harness_watch_record_conclude(&record, record.watch.world_size, 3);
        check(!record.findings.is_failed);
    } else {
        check(status == DDP_E_PARSE || status == DDP_E_CORRUPT);
        check(sscanf(err.text, "%u:%u: ", &line, &column) == 2);
        check(strchr(err.text, '\n') == NULL);
    }
    ddp_mem_pool_destroy(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const char word[] = "\nend digest=";
    char *text = malloc(size_bytes + sizeof word + 32);
    char *end;
    size_t body;

    check(text != NULL);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    check_record(text, size_bytes);
    end = strstr(text, word);
    body = end != NULL ? (size_t)(end - text) + 1 : size_bytes;
    size_bytes += sizeof word + 32;
    body += (size_t)snprintf(text + body, size_bytes - body, "%s%016" PRIx64 "\n", word + 1,
                             ddp_hash_bytes(text, body, 0));
    check_record(text, body);
    free(text);
    return 0;
}
