/* What a shared object exports, read off its bytes: of this program's own C library, of one that
 * was cut short at every length of its head and tables, and of ones whose tables lie. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "harness/scenario/exports.h"
#include "tests/ct.h"

/* Two symbols, one of them only used; tables as a linker lays them out. */
struct object {
    Elf64_Ehdr head;
    Elf64_Shdr section[3];
    Elf64_Sym symbol[3];
    char names[32];
};

static struct object make_object(void)
{
    struct object object;

    memset(&object, 0, sizeof object);
    memcpy(object.head.e_ident, ELFMAG, SELFMAG);
    object.head.e_ident[EI_CLASS] = ELFCLASS64;
    object.head.e_shoff = offsetof(struct object, section);
    object.head.e_shentsize = sizeof(Elf64_Shdr);
    object.head.e_shnum = 3;
    object.section[1] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                                     .sh_link = 2,
                                     .sh_offset = offsetof(struct object, symbol),
                                     .sh_size = sizeof object.symbol,
                                     .sh_entsize = sizeof(Elf64_Sym)};
    object.section[2] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                     .sh_offset = offsetof(struct object, names),
                                     .sh_size = sizeof object.names};
    memcpy(object.names, "\0given\0used", 12);
    object.symbol[1] = (Elf64_Sym){.st_name = 1, .st_shndx = 5};
    object.symbol[2] = (Elf64_Sym){.st_name = 7, .st_shndx = SHN_UNDEF};
    return object;
}

static bool exports(const struct object *object, size_t size_bytes, const char *symbol)
{
    unsigned char *copy = malloc(size_bytes + 1); /* its end is the end of the memory */
    bool is_there;

    memcpy(copy, object, size_bytes);
    is_there = harness_bytes_export(copy, size_bytes, symbol);
    free(copy);
    return is_there;
}

CT_TEST(exports, defined_symbols)
{
    const struct object object = make_object();

    CT_CHECK(exports(&object, sizeof object, "given"));
    CT_CHECK(!exports(&object, sizeof object, "giv"));
    CT_CHECK(!exports(&object, sizeof object, "used"));
    CT_CHECK(!exports(&object, sizeof object, "missing"));
    for (size_t size = 0; size < offsetof(struct object, names) + 7; size++) {
        CT_CHECK(!exports(&object, size, "given"));
    }
}

CT_TEST(exports, tables_that_lie)
{
    struct object object = make_object();

    object.section[1].sh_link = 3;
    CT_CHECK(!exports(&object, sizeof object, "given"));
    object = make_object();
    object.section[1].sh_offset = UINT64_MAX - 8;
    CT_CHECK(!exports(&object, sizeof object, "given"));
    object = make_object();
    object.section[1].sh_size = UINT64_MAX;
    object.symbol[1].st_name = UINT32_MAX;
    CT_CHECK(!exports(&object, sizeof object, "given"));
    object = make_object();
    object.section[2].sh_offset = UINT64_MAX - 4;
    CT_CHECK(!exports(&object, sizeof object, "given"));
    object = make_object();
    object.section[2].sh_size = 6; /* without the name's end */
    CT_CHECK(!exports(&object, sizeof object, "given"));
    object = make_object();
    object.head.e_shoff = UINT64_MAX - 64;
    CT_CHECK(!exports(&object, sizeof object, "given"));
    object = make_object();
    object.head.e_ident[EI_CLASS] = ELFCLASS32;
    CT_CHECK(!exports(&object, sizeof object, "given"));
}

CT_TEST(exports, files)
{
    CT_CHECK(!harness_file_exports("/proc/self/exe", "no_such_symbol"));
    CT_CHECK(!harness_file_exports("/dev/zero", "given"));
    CT_CHECK(!harness_file_exports("/", "given"));
    CT_CHECK(!harness_file_exports("/nowhere", "given"));
}
