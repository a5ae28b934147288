/* Broken scenarios: tests/data/broken/<name>.yaml must give exactly the line in <name>.txt. */
#include <dirent.h>
#include <stdio.h>

#include "tests/unit/scenario/scenario_testing.h"

enum { FILE_BYTES_MAX = 1 << 16, CASES_MIN = 30 };

static size_t read_file(const char *name, char *buffer)
{
    char path[512];
    size_t size_bytes = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/tests/data/broken/%s", DDPROVE_SOURCE_DIR, name);
    file = fopen(path, "rb");
    if (file != NULL) {
        size_bytes = fread(buffer, 1, FILE_BYTES_MAX - 1, file);
        (void)fclose(file);
    }
    buffer[size_bytes] = '\0';
    return size_bytes;
}

static void check_broken(const char *name)
{
    static char text[FILE_BYTES_MAX];
    static char expected[FILE_BYTES_MAX];
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    char path[300];
    char expected_name[300];
    size_t size_bytes = read_file(name, text);

    (void)snprintf(path, sizeof(path), "scenarios/broken/%s", name);
    (void)snprintf(expected_name, sizeof(expected_name), "%.*s.txt", (int)strlen(name) - 5, name);
    CT_REQUIRE(read_file(expected_name, expected) > 0);
    expected[strcspn(expected, "\n")] = '\0';
    if (harness_scenario_parse(text, size_bytes, path, NULL, 0, &scenario, &err) == DDP_OK) {
        CT_FAIL("%s was accepted", name);
        harness_scenario_fini(&scenario);
        return;
    }
    CT_CHECK_STR(err.text, expected);
}

/* Each broken file is refused with its place, what is wrong and what would be right. */
CT_TEST(broken, gives_one_exact_line)
{
    DIR *folder = opendir(DDPROVE_SOURCE_DIR "/tests/data/broken");
    struct dirent *entry;
    size_t count = 0;

    CT_REQUIRE(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        size_t size_bytes = strlen(entry->d_name);

        if (size_bytes > 5 && strcmp(entry->d_name + size_bytes - 5, ".yaml") == 0) {
            check_broken(entry->d_name);
            count++;
        }
    }
    (void)closedir(folder);
    CT_CHECK(count >= CASES_MIN);
}

/* A file may have a megabyte, not more. */
CT_TEST(broken, refuses_a_huge_file)
{
    static char text[(1 << 20) + 2];
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};

    memset(text, '#', sizeof(text));
    CT_CHECK_STATUS(harness_scenario_parse(text, sizeof(text), "x.yaml", NULL, 0, &scenario, &err),
                    DDP_E_PARSE);
    CT_CHECK_STR(err.text, "x.yaml: 1048578 bytes; a scenario has at most 1048576");
}
