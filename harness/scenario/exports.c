/* Purpose: tell the two forms of a plug-in apart while a scenario is read, where nobody's code is
 * to be run. Idea: the table of dynamic symbols, of which nothing is believed: each offset is
 * checked against the file's length. */
#include "harness/scenario/exports.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
    const unsigned char *bytes;
    size_t size_bytes;
};

/* Copies what lies there, which need not be aligned. False: it is not in the file. */
static bool take(const struct image *image, uint64_t at, void *out, size_t size_bytes)
{
    if (at > image->size_bytes || size_bytes > image->size_bytes - at) {
        return false;
    }
    memcpy(out, image->bytes + at, size_bytes);
    return true;
}

static bool take_section(const struct image *image, const Elf64_Ehdr *head, uint64_t index,
                         Elf64_Shdr *out)
{
    return index < head->e_shnum && head->e_shentsize == sizeof(*out) &&
           head->e_shoff <= image->size_bytes &&
           take(image, head->e_shoff + index * sizeof(*out), out, sizeof(*out));
}

static bool is_name(const struct image *image, const Elf64_Shdr *names, uint32_t at,
                    const char *name)
{
    size_t length = strlen(name) + 1;

    return at < names->sh_size && length <= names->sh_size - at &&
           names->sh_offset <= image->size_bytes &&
           names->sh_offset + at + length <= image->size_bytes &&
           memcmp(image->bytes + names->sh_offset + at, name, length) == 0;
}

static bool has_symbol(const struct image *image, const Elf64_Ehdr *head, const Elf64_Shdr *table,
                       const char *symbol)
{
    Elf64_Shdr names;
    Elf64_Sym entry;

    if (!take_section(image, head, table->sh_link, &names) || names.sh_size > image->size_bytes) {
        return false;
    }
    for (uint64_t at = 0; at + sizeof(entry) <= table->sh_size; at += sizeof(entry)) {
        if (table->sh_offset > image->size_bytes ||
            !take(image, table->sh_offset + at, &entry, sizeof(entry))) {
            return false;
        }
        if (entry.st_shndx != SHN_UNDEF && is_name(image, &names, entry.st_name, symbol)) {
            return true;
        }
    }
    return false;
}

bool harness_bytes_export(const unsigned char *bytes, size_t size_bytes, const char *symbol)
{
    const struct image image = {bytes, size_bytes};
    Elf64_Ehdr head;
    Elf64_Shdr section;

    if (!take(&image, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64) {
        return false;
    }
    for (uint64_t i = 0; take_section(&image, &head, i, &section); i++) {
        if (section.sh_type == SHT_DYNSYM && has_symbol(&image, &head, &section, symbol)) {
            return true;
        }
    }
    return false;
}

bool harness_file_exports(const char *path, const char *symbol)
{
    struct stat about;
    bool is_there = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (bytes != MAP_FAILED) {
            is_there = harness_bytes_export(bytes, (size_t)about.st_size, symbol);
            (void)munmap(bytes, (size_t)about.st_size);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_there;
}
