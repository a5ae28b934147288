/* What the fuzz targets of dumps share: bytes as the files of two ranks, read, concluded, said. */
#ifndef TESTS_FUZZ_DUMP_H
#define TESTS_FUZZ_DUMP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/diagnose/diagnose.h"

static inline void dump_check(int condition)
{
    if (!condition) {
        abort();
    }
}

/* An error is one line that begins with the path; what is accepted has an answer that can be said.
 */
static inline void dump_read(struct harness_diagnosis *diagnosis, const char *path,
                             const uint8_t *data, size_t size_bytes)
{
    struct ddp_err err = {{0}};
    char *text = (char *)malloc(size_bytes + 1);
    ddp_status status;

    dump_check(text != NULL);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    status = harness_diagnosis_read(diagnosis, path, text, size_bytes, 0, &err);
    if (status != DDP_OK) {
        dump_check(status == DDP_E_PARSE || status == DDP_E_UNSUPPORTED);
        dump_check(strncmp(err.text, path, strlen(path)) == 0);
        dump_check(strchr(err.text, '\n') == NULL);
    }
    free(text);
}

/* Up to the first 0xff the bytes are the file of rank 0, behind it that of rank 1. */
static inline void dump_try(const char *suffix, const uint8_t *data, size_t size_bytes)
{
    struct harness_diagnosis *diagnosis = NULL;
    char path[64];
    struct ddp_err err = {{0}};
    struct ddp_text text;
    const uint8_t *cut = size_bytes > 0 ? memchr(data, 0xff, size_bytes) : NULL;
    size_t first = cut != NULL ? (size_t)(cut - data) : size_bytes;
    json_t *root;

    dump_check(harness_diagnosis_create(&diagnosis) == DDP_OK);
    (void)snprintf(path, sizeof path, "rank_0%s", suffix);
    dump_read(diagnosis, path, data, first);
    if (cut != NULL) {
        path[5] = '1';
        dump_read(diagnosis, path, cut + 1, size_bytes - first - 1);
    }
    dump_check(harness_diagnosis_conclude(diagnosis) != HARNESS_OUTCOME_ERROR);
    ddp_text_init(&text, ddp_mem_system());
    harness_diagnosis_print(diagnosis, &text);
    dump_check(text.size_bytes > 0);
    ddp_text_fini(&text);
    root = harness_diagnosis_json(diagnosis);
    dump_check(root != NULL && json_array_size(json_object_get(root, "findings")) < 100000);
    json_decref(root);
    ddp_text_init(&text, ddp_mem_system());
    if (harness_diagnosis_scenario(diagnosis, "x/y.yaml", &text, &err) != DDP_OK) {
        dump_check(err.text[0] != '\0');
    }
    ddp_text_fini(&text);
    harness_diagnosis_destroy(diagnosis);
}

#endif
