/* What the tables of choices say beside their names. */
#include <string.h>

#include "harness/plan/key.h"
#include "tests/unit/scenario/scenario_testing.h"

static void check_words(enum harness_names list, enum harness_section section)
{
    size_t count;
    const struct harness_variant *variants = harness_variants(list, &count);

    for (size_t i = 0; i < count; i++) {
        const char *words = variants[i].keys;

        while (*words != '\0') {
            size_t length = strcspn(words, " ");
            bool is_key = false;

            for (unsigned k = 0; k < HARNESS_ROW_COUNT; k++) {
                const struct harness_key *key = harness_key((enum harness_row)k);

                is_key = is_key || (key->section == section && strlen(key->key) == length &&
                                    strncmp(key->key, words, length) == 0);
            }
            if (!is_key) {
                CT_FAIL("%s takes \"%.*s\", which is no key of %s", variants[i].name, (int)length,
                        words, harness_section_title(section));
            }
            words += length;
            words += strspn(words, " ");
        }
    }
}

/* What optimizers, actions, corruptions and edits say that they take are keys. */
CT_TEST(keys, choices_take_keys_that_exist)
{
    check_words(HARNESS_NAMES_OPTIMIZERS, HARNESS_SECTION_OPTIMIZER);
    check_words(HARNESS_NAMES_ACTIONS, HARNESS_SECTION_DO);
    check_words(HARNESS_NAMES_CORRUPTS, HARNESS_SECTION_DO);
    check_words(HARNESS_NAMES_EDITS, HARNESS_SECTION_RESTORE);
}
