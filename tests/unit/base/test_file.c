/* Files of both kinds, through one list of expectations, and atomic writes under failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "tests/ct.h"

static void check_content(struct ddp_files *files, const char *path, const char *expected)
{
    struct ddp_mem *mem = ddp_mem_system();
    size_t size_bytes = 0;
    void *data = NULL;

    CT_REQUIRE_OK(files->ops->read_all(files, path, mem, &data, &size_bytes, NULL));
    CT_CHECK_EQ_U64(size_bytes, strlen(expected));
    CT_CHECK_STR((const char *)data, expected);
    ddp_mem_free(mem, data);
}

static void check_missing(struct ddp_files *files, const char *path)
{
    struct ddp_err err = {""};
    size_t size_bytes;
    void *data;

    CT_CHECK_STATUS(files->ops->read_all(files, path, ddp_mem_system(), &data, &size_bytes, &err),
                    DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, path) != NULL);
}

/* What any file table must do; `folder` exists. */
static void check_files(struct ddp_files *files, const char *folder)
{
    char a[256];
    char b[256];
    size_t written = 0;
    int handle = -1;

    (void)snprintf(a, sizeof(a), "%s/a", folder);
    (void)snprintf(b, sizeof(b), "%s/b", folder);
    check_missing(files, a);
    CT_REQUIRE_OK(files->ops->create(files, a, &handle, NULL));
    CT_CHECK_OK(files->ops->write(files, handle, "hello ", 6, &written, NULL));
    CT_CHECK_EQ_U64(written, 6);
    CT_CHECK_OK(files->ops->write(files, handle, "world", 5, &written, NULL));
    CT_CHECK_OK(files->ops->sync(files, handle, NULL));
    CT_CHECK_OK(files->ops->close(files, handle, NULL));
    check_content(files, a, "hello world");
    CT_REQUIRE_OK(files->ops->append(files, b, &handle, NULL)); /* it is not there yet */
    CT_CHECK_OK(files->ops->write(files, handle, "one", 3, &written, NULL));
    CT_CHECK_OK(files->ops->close(files, handle, NULL));
    CT_REQUIRE_OK(files->ops->append(files, b, &handle, NULL));
    CT_CHECK_OK(files->ops->write(files, handle, " two", 4, &written, NULL));
    CT_CHECK_OK(files->ops->close(files, handle, NULL));
    check_content(files, b, "one two");
    CT_CHECK_OK(ddp_files_write_whole(files, b, "old", 3, NULL));
    CT_CHECK_OK(files->ops->rename(files, a, b, NULL));
    check_missing(files, a);
    check_content(files, b, "hello world");
    CT_CHECK_OK(ddp_files_write_atomic(files, b, "new", 3, NULL));
    check_content(files, b, "new");
    CT_CHECK_OK(ddp_files_write_whole(files, b, NULL, 0, NULL));
    check_content(files, b, "");
    CT_CHECK_STATUS(files->ops->rename(files, a, b, NULL), DDP_E_NOT_FOUND);
    CT_CHECK_OK(files->ops->remove(files, b, NULL));
    CT_CHECK_STATUS(files->ops->remove(files, b, NULL), DDP_E_NOT_FOUND);
}

/* The operating system's files keep the table's promises. */
CT_TEST(file, system_files)
{
    char folder[] = "ddprove_file_XXXXXX";

    CT_REQUIRE(mkdtemp(folder) != NULL);
    check_files(ddp_files_system(), folder);
    check_files(ddp_files_unsynced(), folder);
    CT_CHECK(rmdir(folder) == 0);
}

/* Files in memory keep the same promises. */
/* A FIFO that nobody writes into is refused at once. */
CT_TEST(file, nobody_waits_for_a_pipe)
{
    char folder[] = "/tmp/ddprove-file-XXXXXX";
    struct ddp_files *files = ddp_files_system();
    struct ddp_err err = {{0}};
    char path[64];
    void *data = NULL;
    size_t size_bytes = 0;

    CT_REQUIRE(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/pipe", folder);
    CT_REQUIRE(mkfifo(path, 0600) == 0);
    CT_CHECK_STATUS(files->ops->read_all(files, path, ddp_mem_system(), &data, &size_bytes, &err),
                    DDP_E_IO);
    CT_CHECK(strstr(err.text, "is not a regular file") != NULL);
    CT_CHECK(data == NULL);
    CT_CHECK(unlink(path) == 0 && rmdir(folder) == 0);
}

CT_TEST(file, memory_files)
{
    struct ddp_files_memory *memory;

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    check_files(ddp_files_memory_files(memory), "any/where");
    ddp_files_memory_destroy(memory);
}

/* Names are found among thousands, and the lowest free handle is taken again. */
CT_TEST(file, memory_of_many_files)
{
    enum { FILE_COUNT = 3000 };
    struct ddp_files_memory *memory;
    struct ddp_files *files;
    int handles[FILE_COUNT];
    char path[32];

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    files = ddp_files_memory_files(memory);
    for (int i = 0; i < FILE_COUNT; i++) {
        size_t written;

        (void)snprintf(path, sizeof(path), "f/%d", i);
        CT_REQUIRE_OK(files->ops->create(files, path, &handles[i], NULL));
        CT_CHECK_EQ_I64(handles[i], i);
        CT_REQUIRE_OK(files->ops->write(files, handles[i], path, strlen(path), &written, NULL));
    }
    CT_REQUIRE_OK(files->ops->close(files, 17, NULL));
    CT_REQUIRE_OK(files->ops->rename(files, "f/1", "g", NULL));
    CT_CHECK_STATUS(files->ops->remove(files, "f/1", NULL), DDP_E_NOT_FOUND);
    CT_REQUIRE_OK(files->ops->remove(files, "f/2", NULL)); /* its handle stays open */
    CT_REQUIRE_OK(files->ops->create(files, "new", &handles[0], NULL));
    CT_CHECK_EQ_I64(handles[0], 17);
    for (int i = 3; i < FILE_COUNT; i++) {
        void *data;
        size_t size_bytes;

        (void)snprintf(path, sizeof(path), "f/%d", i);
        CT_REQUIRE_OK(
            files->ops->read_all(files, path, ddp_mem_system(), &data, &size_bytes, NULL));
        CT_CHECK(size_bytes == strlen(path) && memcmp(data, path, size_bytes) == 0);
        ddp_mem_free(ddp_mem_system(), data);
    }
    ddp_files_memory_destroy(memory);
}

static void write_renamed(struct ddp_files *files, const char *path, bool is_synced)
{
    size_t written = 0;
    int handle = -1;

    CT_REQUIRE_OK(files->ops->create(files, "x.tmp", &handle, NULL));
    CT_REQUIRE_OK(files->ops->write(files, handle, "abc", 3, &written, NULL));
    if (is_synced) {
        CT_REQUIRE_OK(files->ops->sync(files, handle, NULL));
    }
    CT_REQUIRE_OK(files->ops->write(files, handle, "de", 2, &written, NULL));
    CT_REQUIRE_OK(files->ops->close(files, handle, NULL));
    CT_REQUIRE_OK(files->ops->rename(files, "x.tmp", path, NULL));
}

/* A crash takes what a renamed file never synced, and nothing else. */
CT_TEST(file, memory_crash)
{
    static const struct {
        const char *path;
        size_t size_bytes;
    } left[] = {{"synced", 3}, {"unsynced", 0}, {"in_place", 4}, {"atomic", 6}};
    struct ddp_files_memory *memory;
    struct ddp_files *files;

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    files = ddp_files_memory_files(memory);
    write_renamed(files, "synced", true);
    write_renamed(files, "unsynced", false);
    CT_REQUIRE_OK(ddp_files_write_whole(files, "in_place", "1234", 4, NULL));
    CT_REQUIRE_OK(ddp_files_write_atomic(files, "atomic", "123456", 6, NULL));
    ddp_files_memory_crash(memory);
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        void *data = NULL;
        size_t size_bytes = 99;

        CT_REQUIRE_OK(
            files->ops->read_all(files, left[i].path, ddp_mem_system(), &data, &size_bytes, NULL));
        CT_CHECK_EQ_U64(size_bytes, left[i].size_bytes);
        ddp_mem_free(ddp_mem_system(), data);
    }
    ddp_files_memory_destroy(memory);
}

/* A handle in memory stays on its file when the name goes, and destroy takes what is left open. */
CT_TEST(file, memory_handle_outlives_name)
{
    struct ddp_files_memory *memory;
    struct ddp_files *files;
    size_t written;
    int handles[20];
    char path[16];

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    files = ddp_files_memory_files(memory);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(path, sizeof(path), "f%d", i);
        CT_REQUIRE_OK(files->ops->create(files, path, &handles[i], NULL));
    }
    CT_CHECK_OK(files->ops->remove(files, "f3", NULL));
    CT_CHECK_OK(files->ops->write(files, handles[3], "x", 1, &written, NULL));
    CT_CHECK_OK(ddp_files_write_whole(files, "f3", "second", 6, NULL));
    CT_CHECK_OK(files->ops->close(files, handles[3], NULL));
    check_content(files, "f3", "second");
    CT_CHECK_OK(files->ops->rename(files, "f4", "f5", NULL));
    CT_CHECK_OK(files->ops->write(files, handles[4], "y", 1, &written, NULL));
    check_content(files, "f5", "y");
    ddp_files_memory_destroy(memory);
}

/* Exported files land under their paths, folders included. */
CT_TEST(file, memory_export)
{
    char folder[] = "ddprove_export_XXXXXX";
    struct ddp_files_memory *memory;
    char path[64];

    CT_REQUIRE(mkdtemp(folder) != NULL);
    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    (void)snprintf(path, sizeof(path), "%s/deep/er/file", folder);
    CT_CHECK_OK(ddp_files_write_whole(ddp_files_memory_files(memory), path, "abc", 3, NULL));
    CT_CHECK_OK(ddp_files_memory_export(memory, NULL));
    check_content(ddp_files_system(), path, "abc");
    CT_CHECK_STATUS(ddp_files_make_dirs(path, NULL), DDP_E_IO);
    CT_CHECK(unlink(path) == 0);
    for (size_t end = strlen(path); path[--end] != '\0' && end > 0;) {
        if (path[end] == '/') {
            path[end] = '\0';
            CT_CHECK(rmdir(path) == 0);
        }
    }
    ddp_files_memory_destroy(memory);
}

struct texts {
    char all[64];
    ddp_status end; /* what the text "end" is answered with */
};

static ddp_status take_text(void *context, const char *text, struct ddp_err *err)
{
    struct texts *texts = (struct texts *)context;

    (void)strncat(texts->all, text, sizeof(texts->all) - strlen(texts->all) - 1);
    return strcmp(text, "end") == 0 && texts->end != DDP_OK
               ? ddp_err_set(err, texts->end, "that is the end")
               : DDP_OK;
}

/* Texts come by name, those of the suffix only; the first error ends it and names the file. */
CT_TEST(file, each_text)
{
    static const char *const names[] = {"c.txt", "a.txt", "b.text", "b.txt", ".txt", "txt"};
    static const char *const texts[] = {"3", "1", "no", "end", "0", "no"};
    struct ddp_files *files = ddp_files_system();
    struct ddp_mem *mem = ddp_mem_system();
    char folder[] = "ddprove_texts_XXXXXX";
    struct texts seen = {"", DDP_OK};
    struct ddp_err err = {""};
    char path[64];

    CT_REQUIRE(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        CT_REQUIRE_OK(ddp_files_write_whole(files, path, texts[i], strlen(texts[i]), NULL));
    }
    CT_CHECK_OK(ddp_files_each_text(files, folder, ".txt", mem, take_text, &seen, &err));
    CT_CHECK_STR(seen.all, "01end3");
    seen = (struct texts){"", DDP_E_KEYS};
    CT_CHECK_STATUS(ddp_files_each_text(files, folder, ".txt", mem, take_text, &seen, &err),
                    DDP_E_KEYS);
    CT_CHECK_STR(seen.all, "01end");
    CT_CHECK(strstr(err.text, "/b.txt") != NULL && strstr(err.text, "that is the end") != NULL);
    (void)snprintf(path, sizeof(path), "%s/a.txt", folder);
    CT_REQUIRE_OK(ddp_files_write_whole(files, path,
                                        "1\0"
                                        "2",
                                        3, NULL));
    seen = (struct texts){"", DDP_OK};
    CT_CHECK_STATUS(ddp_files_each_text(files, folder, ".txt", mem, take_text, &seen, &err),
                    DDP_E_PARSE);
    CT_CHECK_STR(seen.all, "0");
    CT_CHECK_STATUS(ddp_files_each_text(files, path, ".txt", mem, take_text, &seen, &err),
                    DDP_E_IO);
    CT_CHECK_OK(ddp_files_remove_tree(folder, NULL));
    CT_CHECK_OK(ddp_files_each_text(files, folder, ".txt", mem, take_text, &seen, &err));
    CT_CHECK_STR(seen.all, "0");
}

/* Files in memory are listed alike: those directly in the folder, by name. */
CT_TEST(file, each_text_in_memory)
{
    static const char *const names[] = {"run/c.txt",    "run/a.txt",  "run/b.text", "run/b.txt",
                                        "run/in/d.txt", "runs/e.txt", "run"};
    static const char *const texts[] = {"3", "1", "no", "2", "no", "no", "no"};
    struct ddp_files_memory *memory;
    struct texts seen = {"", DDP_OK};
    struct ddp_err err = {""};
    struct ddp_files *files;

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    files = ddp_files_memory_files(memory);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CT_REQUIRE_OK(ddp_files_write_whole(files, names[i], texts[i], strlen(texts[i]), NULL));
    }
    CT_CHECK_OK(
        ddp_files_each_text(files, "run", ".txt", ddp_mem_system(), take_text, &seen, &err));
    CT_CHECK_STR(seen.all, "123");
    CT_CHECK_OK(
        ddp_files_each_text(files, "none", ".txt", ddp_mem_system(), take_text, &seen, &err));
    CT_CHECK_STR(seen.all, "123");
    ddp_files_memory_destroy(memory);
}

/* A table that fails its nth operation, writes one byte at a time, and forwards the rest. */
struct failing_files {
    struct ddp_files base;
    struct ddp_files_ops ops;
    struct ddp_files *inner;
    int operations_left; /* before one fails */
    int open_count;
};

static bool fails_now(struct ddp_files *files)
{
    return ((struct failing_files *)files)->operations_left-- == 0;
}

static struct ddp_files *inner_of(struct ddp_files *files)
{
    return ((struct failing_files *)files)->inner;
}

static ddp_status failing_create(struct ddp_files *files, const char *path, int *out_handle,
                                 struct ddp_err *err)
{
    ddp_status status;

    if (fails_now(files)) {
        return ddp_err_set(err, DDP_E_INJECTED, "injected");
    }
    status = inner_of(files)->ops->create(inner_of(files), path, out_handle, err);
    ((struct failing_files *)files)->open_count += status == DDP_OK;
    return status;
}

static ddp_status failing_write(struct ddp_files *files, int handle, const void *data,
                                size_t size_bytes, size_t *out_written, struct ddp_err *err)
{
    *out_written = 0;
    if (fails_now(files)) {
        return ddp_err_set(err, DDP_E_INJECTED, "injected");
    }
    return inner_of(files)->ops->write(inner_of(files), handle, data, size_bytes > 0, out_written,
                                       err);
}

static ddp_status failing_sync(struct ddp_files *files, int handle, struct ddp_err *err)
{
    return fails_now(files) ? DDP_E_INJECTED
                            : inner_of(files)->ops->sync(inner_of(files), handle, err);
}

static ddp_status failing_close(struct ddp_files *files, int handle, struct ddp_err *err)
{
    bool fails = fails_now(files);
    ddp_status status = inner_of(files)->ops->close(inner_of(files), handle, err);

    ((struct failing_files *)files)->open_count--;
    return fails ? DDP_E_INJECTED : status;
}

static ddp_status failing_rename(struct ddp_files *files, const char *from, const char *to,
                                 struct ddp_err *err)
{
    return fails_now(files) ? DDP_E_INJECTED
                            : inner_of(files)->ops->rename(inner_of(files), from, to, err);
}

static ddp_status failing_remove(struct ddp_files *files, const char *path, struct ddp_err *err)
{
    return inner_of(files)->ops->remove(inner_of(files), path, err);
}

/* Wherever an atomic write fails, the old content stays, no temporary is left and no handle open;
 * one operation later it succeeds although every write is short. */
CT_TEST(file, atomic_write_survives_any_failure)
{
    struct ddp_files_memory *memory;
    struct failing_files failing;
    struct ddp_files *inner;
    int failures = 0;

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    inner = ddp_files_memory_files(memory);
    memset(&failing, 0, sizeof(failing));
    failing.ops.create = failing_create;
    failing.ops.write = failing_write;
    failing.ops.sync = failing_sync;
    failing.ops.close = failing_close;
    failing.ops.rename = failing_rename;
    failing.ops.remove = failing_remove;
    failing.base.ops = &failing.ops;
    failing.inner = inner;
    CT_REQUIRE_OK(ddp_files_write_whole(inner, "x", "old", 3, NULL));
    for (;;) {
        failing.operations_left = failures;
        if (ddp_files_write_atomic(&failing.base, "x", "newer", 5, NULL) == DDP_OK) {
            break;
        }
        check_content(inner, "x", "old");
        check_missing(inner, "x.tmp");
        CT_CHECK_EQ_I64(failing.open_count, 0);
        failures++;
        CT_REQUIRE(failures < 100);
    }
    CT_CHECK_EQ_I64(failures, 9); /* create, five writes, sync, close, rename */
    check_content(inner, "x", "newer");
    check_missing(inner, "x.tmp");
    ddp_files_memory_destroy(memory);
}
