/* Opcodes of pickles that no dump has: those that name, call or build things, and old forms. */
#include "harness/dumps/pickle.h"

static const char *name_of(unsigned char code)
{
    static const struct {
        unsigned char code;
        const char *name;
    } names[] = {{'c', "GLOBAL"},
                 {0x93, "STACK_GLOBAL"},
                 {'R', "REDUCE"},
                 {'b', "BUILD"},
                 {'o', "OBJ"},
                 {'i', "INST"},
                 {0x81, "NEWOBJ"},
                 {0x92, "NEWOBJ_EX"},
                 {'P', "PERSID"},
                 {'Q', "BINPERSID"},
                 {0x82, "EXT1"},
                 {0x83, "EXT2"},
                 {0x84, "EXT4"},
                 {0x97, "NEXT_BUFFER"},
                 {0x98, "READONLY_BUFFER"},
                 {0x8b, "LONG4"},
                 {'B', "BINBYTES"},
                 {'C', "SHORT_BINBYTES"},
                 {0x8e, "BINBYTES8"},
                 {0x96, "BYTEARRAY8"},
                 {0x8f, "EMPTY_SET"},
                 {0x90, "ADDITEMS"},
                 {0x91, "FROZENSET"},
                 {'2', "DUP"},
                 {'0', "POP"},
                 {'1', "POP_MARK"},
                 {'d', "DICT"},
                 {'l', "LIST"},
                 {'I', "INT"},
                 {'L', "LONG"},
                 {'F', "FLOAT"},
                 {'S', "STRING"},
                 {'T', "BINSTRING"},
                 {'U', "SHORT_BINSTRING"},
                 {'V', "UNICODE"},
                 {'g', "GET"},
                 {'p', "PUT"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].code == code) {
            return names[i].name;
        }
    }
    return NULL;
}

ddp_status harness_diag_pickle_refuse(size_t offset, unsigned char code, const char *what,
                                      struct ddp_err *err)
{
    const char *name = name_of(code);

    if (name == NULL) {
        return ddp_err_set(err, DDP_E_PARSE, "offset %zu: 0x%02x is no opcode of a pickle", offset,
                           code);
    }
    return ddp_err_set(err, DDP_E_UNSUPPORTED,
                       "offset %zu: opcode %s is refused; %s has none, and "
                       "nothing in a pickle is run here",
                       offset, name, what);
}
