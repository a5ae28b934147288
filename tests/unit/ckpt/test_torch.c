/* Files of torch.save: PyTorch's own (tests/data/ckpt), damaged ones, and written ones that lie. */
#include "ddpcore/base/file.h"
#include "tests/unit/ckpt/ckpt_bytes.h"

/* One of PyTorch's files, read; false: it could not be. */
static bool read_real(struct harness_ckpt *out, const char *name, const char *key)
{
    char path[512];
    struct ddp_err err = {{0}};
    ddp_status status;

    (void)snprintf(path, sizeof path, "%s/tests/data/ckpt/%s", DDPROVE_SOURCE_DIR, name);
    status = harness_ckpt_load(ddp_files_system(), path, key, out, &err);
    CT_CHECK_STR(err.text, status == DDP_OK ? err.text : "");
    CT_CHECK_OK(status);
    return status == DDP_OK;
}

static void check_elements(const struct harness_ckpt *ckpt, const char *name,
                           const double *expected, size_t count)
{
    const struct harness_ckpt_tensor *tensor = ckpt_find(ckpt, name);

    CT_REQUIRE(tensor != NULL);
    CT_CHECK_EQ_U64(tensor->elem_count, count);
    for (size_t i = 0; i < count && i < tensor->elem_count; i++) {
        const double value =
            harness_ckpt_value(tensor->dtype, harness_ckpt_bits(tensor->dtype, tensor->data, i));

        CT_CHECK(value == expected[i]);
    }
}

CT_TEST(ckpt_torch, takes_views_as_they_are)
{
    struct harness_ckpt ckpt;

    if (!harness_ckpt_reads_torch()) {
        CT_SKIP("built without libzip");
    }
    CT_REQUIRE(read_real(&ckpt, "views.pt", NULL));
    CT_CHECK_OK(harness_ckpt_verify(&ckpt));
    CT_CHECK_EQ_U64(ckpt.faults.count, 0);
    CT_CHECK_EQ_U64(ckpt.tensor_count, 14);
    CT_CHECK_EQ_I64((int)ckpt.checksum, HARNESS_CKPT_CHECKSUM_HOLDS);
    CT_CHECK(ckpt.taken == NULL && ckpt.left_out == NULL);
    check_elements(&ckpt, "transposed", (double[]){0, 3, 1, 4, 2, 5}, 6);
    check_elements(&ckpt, "part", (double[]){3, 4, 5, 6}, 4);
    check_elements(&ckpt, "column", (double[]){1, 5, 9}, 3);
    check_elements(&ckpt, "all", (double[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 12);
    check_elements(&ckpt, "expanded", (double[]){1, 1, 1, 1, 1, 1}, 6);
    check_elements(&ckpt, "parameter", (double[]){1, 1}, 2);
    check_elements(&ckpt, "none", NULL, 0);
    check_elements(&ckpt, "flag", (double[]){1}, 1);
    check_elements(&ckpt, "u16", (double[]){0, 1, 2}, 3);
    check_elements(&ckpt, "f8", (double[]){1, 1}, 2);
    check_elements(&ckpt, "half", (double[]){1, 1}, 2);
    check_elements(&ckpt, "bf16", (double[]){1, 1}, 2);
    check_elements(&ckpt, "i8", (double[]){-3}, 1);
    check_elements(&ckpt, "f64", (double[]){0.1}, 1);
    harness_ckpt_fini(&ckpt);
}

/* Three ways to save one model, and a fourth through the wrapper, in a map with other things. */
CT_TEST(ckpt_torch, reads_all_forms_alike)
{
    static const struct {
        const char *name;
        int32_t shift;
    } forms[] = {{"protocol4.pt", 0}, {"legacy.pt", 0}, {"wrapped.pt", 1}};
    struct harness_ckpt model, other;
    struct harness_ckpt_diff diff;

    if (!harness_ckpt_reads_torch()) {
        CT_SKIP("built without libzip");
    }
    CT_REQUIRE(read_real(&model, "state_dict.pt", NULL));
    check_elements(&model, "1.bias", (double[]){299, 300, 301}, 3);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        CT_REQUIRE(read_real(&other, forms[i].name, NULL));
        CT_CHECK_EQ_U64(other.faults.count, 0);
        CT_CHECK_OK(harness_ckpt_compare(&other, &model, &diff));
        CT_CHECK_EQ_U64(diff.change_count, 0);
        CT_CHECK_EQ_U64(diff.equal_count, 7);
        CT_CHECK_EQ_I64(diff.shift, forms[i].shift);
        harness_ckpt_fini(&other);
    }
    harness_ckpt_fini(&model);
}

CT_TEST(ckpt_torch, says_what_was_taken)
{
    struct harness_ckpt ckpt;

    if (!harness_ckpt_reads_torch()) {
        CT_SKIP("built without libzip");
    }
    CT_REQUIRE(read_real(&ckpt, "wrapped.pt", NULL));
    CT_CHECK_STR(ckpt.taken, "model_state_dict");
    CT_CHECK_STR(ckpt.left_out, "optimizer, epoch, loss");
    CT_CHECK_EQ_U64(ckpt.other_count, 5);
    CT_CHECK_STR(ckpt.others[0].name, "optimizer.state.0.momentum_buffer");
    CT_CHECK_STR(ckpt.others[4].name, "loss");
    harness_ckpt_fini(&ckpt);
    CT_REQUIRE(read_real(&ckpt, "wrapped.pt", "optimizer"));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0),
                 "the map \"optimizer\" is no state dict: it has no tensors of its own");
    harness_ckpt_fini(&ckpt);
    CT_REQUIRE(read_real(&ckpt, "module.pt", NULL));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0),
                 "data.pkl: offset 2: it needs torch.nn.modules.container.Sequential, and only "
                 "tensors, texts, numbers, lists and dicts are read; save the state_dict() alone");
    CT_CHECK(!ckpt.is_whole);
    harness_ckpt_fini(&ckpt);
}

/* The bytes of one of PyTorch's files; the caller frees them. */
static uint8_t *real_bytes(const char *name, size_t *out_bytes)
{
    char path[512];
    struct ddp_err err;
    void *data = NULL;

    (void)snprintf(path, sizeof path, "%s/tests/data/ckpt/%s", DDPROVE_SOURCE_DIR, name);
    CT_CHECK_OK(ddp_files_system()->ops->read_all(ddp_files_system(), path, ddp_mem_system(), &data,
                                                  out_bytes, &err));
    return data;
}

/* A byte that changes is noticed, or it is between the entries and nothing has changed. */
CT_TEST(ckpt_torch, notices_every_changed_byte)
{
    size_t size_bytes = 0, noticed_count = 0;
    uint8_t *bytes;
    struct harness_ckpt sound, ckpt;
    struct harness_ckpt_diff diff;
    struct ddp_err err;

    if (!harness_ckpt_reads_torch()) {
        CT_SKIP("built without libzip");
    }
    bytes = real_bytes("wrapped.pt", &size_bytes);
    CT_REQUIRE(bytes != NULL);
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &sound, &err));
    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] ^= (uint8_t)(1U << (i % 8));
        CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
        noticed_count += ckpt.faults.count > 0 ? 1 : 0;
        if (ckpt.faults.count == 0) {
            CT_REQUIRE(ckpt.is_whole);
            CT_REQUIRE_OK(harness_ckpt_compare(&sound, &ckpt, &diff));
            CT_REQUIRE(diff.change_count == 0 && diff.equal_count == sound.tensor_count);
        }
        harness_ckpt_fini(&ckpt);
        bytes[i] ^= (uint8_t)(1U << (i % 8));
    }
    CT_CHECK(noticed_count > 1000);
    harness_ckpt_fini(&sound);
    ddp_mem_free(ddp_mem_system(), bytes);
}

CT_TEST(ckpt_torch, notices_every_cut)
{
    static const char *const names[] = {"state_dict.pt", "legacy.pt"};
    struct harness_ckpt ckpt;
    struct ddp_err err;

    if (!harness_ckpt_reads_torch()) {
        CT_SKIP("built without libzip");
    }
    for (size_t n = 0; n < 2; n++) {
        size_t size_bytes = 0;
        uint8_t *bytes = real_bytes(names[n], &size_bytes);

        for (size_t i = 0; bytes != NULL && i < size_bytes; i++) {
            CT_REQUIRE_OK(harness_ckpt_parse(bytes, i, NULL, &ckpt, &err));
            CT_REQUIRE(ckpt.faults.count > 0);
            harness_ckpt_fini(&ckpt);
        }
        ddp_mem_free(ddp_mem_system(), bytes);
    }
}

/* A value of a storage that has changed is found by its entry's checksum, and can be compared. */
CT_TEST(ckpt_torch, damaged_values_can_be_compared)
{
    size_t size_bytes = 0, at = 0;
    uint8_t *bytes;
    const float sought[3] = {299, 300, 301};
    struct harness_ckpt ckpt, sound;
    struct harness_ckpt_diff diff;
    struct ddp_err err;

    if (!harness_ckpt_reads_torch()) {
        CT_SKIP("built without libzip");
    }
    bytes = real_bytes("state_dict.pt", &size_bytes);
    CT_REQUIRE(bytes != NULL);
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &sound, &err));
    while (at + sizeof sought < size_bytes && memcmp(bytes + at, sought, sizeof sought) != 0) {
        at++;
    }
    bytes[at] ^= 1;
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "archive: state_dict/data/3: its CRC-32 does not hold");
    CT_CHECK_EQ_I64((int)ckpt.checksum, HARNESS_CKPT_CHECKSUM_BROKEN);
    CT_REQUIRE(ckpt.is_whole);
    CT_CHECK_OK(harness_ckpt_compare(&ckpt, &sound, &diff));
    CT_CHECK_EQ_U64(diff.change_count, 1);
    CT_REQUIRE(diff.change_count == 1);
    CT_CHECK_EQ_U64(diff.changes[0].distance_max, 1);
    harness_ckpt_fini(&ckpt);
    harness_ckpt_fini(&sound);
    ddp_mem_free(ddp_mem_system(), bytes);
}

/* --- files that are written here, in the form of before PyTorch 1.6, which is no archive -------
 */

#define STR(length, text) "X" length "\x00\x00\x00" text
#define STORAGE_OF(type, count) \
    "(" STR("\x07", "storage") "ctorch\n" type "\n" STR("\x01", "k") STR("\x03", "cpu") count "tQ"
/* Offset, sizes and strides are opcodes that push them. */
#define TENSOR_OF(storage, offset, sizes, strides)                             \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset sizes strides "\x89" \
    "ccollections\nOrderedDict\n)RtR"
#define SIX  STORAGE_OF("FloatStorage", "K\x06")
#define GOOD TENSOR_OF(SIX, "K\x00", "K\x02K\x03\x86", "K\x03K\x01\x86")

static const float six[6] = {0, 1, 2, 3, 4, 5};

/* The pickle of the object is given, then there is the storage "k" of six floats. */
static bool read_legacy(struct harness_ckpt *out, const char *object, size_t object_bytes,
                        const char *key, ddp_status expected, struct ddp_err *err)
{
    static const char head[] =
        "\x80\x02\x8a\x0al\xfc\x9c"
        "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}" STR("\x0d", "little_endian") "\x88s.";
    static const char keys[] = "\x80\x02]" STR("\x01", "k") "a.\x06\0\0\0\0\0\0";
    uint8_t *bytes = calloc(1, sizeof head + object_bytes + sizeof keys + sizeof six);
    size_t size = 0;
    ddp_status status = DDP_E_NOMEM;

    if (bytes != NULL) {
        memcpy(bytes, head, sizeof head - 1);
        size = sizeof head - 1;
        memcpy(bytes + size, object, object_bytes);
        size += object_bytes;
        memcpy(bytes + size, keys, sizeof keys); /* its last byte is the count's */
        size += sizeof keys;
        memcpy(bytes + size, six, sizeof six);
        size += sizeof six;
        status = harness_ckpt_parse(bytes, size, key, out, err);
    }
    free(bytes);
    CT_CHECK_STATUS(status, expected);
    return status == DDP_OK;
}

static void check_fault(const char *object, size_t object_bytes, const char *expected)
{
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};

    if (read_legacy(&ckpt, object, object_bytes, NULL, DDP_OK, &err)) {
        CT_CHECK_STR(ckpt_fault(&ckpt, 0), expected);
        CT_CHECK(!ckpt.is_whole);
        harness_ckpt_fini(&ckpt);
    }
}

/* body: what is pushed behind the protocol, ended by STOP. */
#define CHECK_FAULT(body, expected) \
    check_fault("\x80\x02" body ".", sizeof("\x80\x02" body ".") - 1, expected)
#define ONE(tensor) "}" STR("\x01", "w") tensor "s"

CT_TEST(ckpt_torch, reads_a_written_file)
{
    struct harness_ckpt ckpt;
    struct ddp_err err;

    CT_REQUIRE(
        read_legacy(&ckpt, "\x80\x02" ONE(GOOD) ".", sizeof(ONE(GOOD)) + 2, NULL, DDP_OK, &err));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "");
    check_elements(&ckpt, "w", (double[]){0, 1, 2, 3, 4, 5}, 6);
    CT_CHECK_EQ_I64((int)ckpt.checksum, HARNESS_CKPT_CHECKSUM_NONE);
    harness_ckpt_fini(&ckpt);
}

CT_TEST(ckpt_torch, refuses_names_that_are_not_of_the_table)
{
    CHECK_FAULT("cos\nsystem\n" STR("\x02", "ls") "\x85R",
                "object: offset 2: it needs os.system, and only tensors, texts, numbers, lists and "
                "dicts are read; save the state_dict() alone");
    CHECK_FAULT(STR("\x08", "builtins") STR("\x04", "eval") "\x93)R",
                "object: offset 24: it needs builtins.eval, and only tensors, texts, numbers, "
                "lists and dicts are read; save the state_dict() alone");
    CHECK_FAULT("ctorch\nFloatStorage\n)R",
                "object: offset 23: torch.FloatStorage is called; that is refused");
    CHECK_FAULT("K\x01)R", "object: offset 5: a call of what is no name");
    CHECK_FAULT("ccollections\nOrderedDict\n)\x81",
                "object: offset 28: opcode NEWOBJ is refused; a state dict has none, and nothing "
                "in a pickle is run here");
    CHECK_FAULT("K\x01}b", "object: offset 5: opcode BUILD is refused; a state dict has none, and "
                           "nothing in a pickle is run here");
    CHECK_FAULT("Q", "object: offset 2: the stack is empty");
    CHECK_FAULT("R", "object: offset 2: a call without a name or arguments");
    CHECK_FAULT("K\x01Q", "object: offset 4: a persistent id that is no storage");
    CHECK_FAULT("ctorch", "object: offset 2: a name without an end");
}

CT_TEST(ckpt_torch, refuses_tensors_that_are_none)
{
    CHECK_FAULT(ONE(TENSOR_OF("K\x01", "K\x00", "K\x06\x85", "K\x01\x85")),
                "object: offset 82: a tensor of what is no storage, offset, sizes and strides");
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "J\xff\xff\xff\xff", "K\x06\x85", "K\x01\x85")),
                "object: offset 134: a tensor of what is no storage, offset, sizes and strides");
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x00", "K\x06\x85", ")")),
                "object: offset 129: a tensor of what is no storage, offset, sizes and strides");
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85")),
                "object: offset 134: sizes or strides that are no numbers from 0 on");
}

CT_TEST(ckpt_torch, keeps_tensors_within_their_storages)
{
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x01", "K\x06\x85", "K\x01\x85")),
                "tensor \"w\": reaches beyond its storage \"k\" of 24 bytes");
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x00", "K\x02K\x03\x86", "K\x04K\x01\x86")),
                "tensor \"w\": reaches beyond its storage \"k\" of 24 bytes");
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x00", "K\x03\x85",
                              "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40"
                              "\x85")),
                "tensor \"w\": reaches beyond its storage \"k\" of 24 bytes");
    CHECK_FAULT(
        ONE(TENSOR_OF(STORAGE_OF("FloatStorage", "K\x05"), "K\x00", "K\x05\x85", "K\x01\x85")),
        "tensor \"w\": its storage \"k\" has 24 bytes, the pickle says 5 elements of 4");
    /* Nothing may not begin beyond the end either. */
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x07", "K\x00\x85", "K\x01\x85")),
                "tensor \"w\": reaches beyond its storage \"k\" of 24 bytes");
}

/* Strides of 0 make much of little. */
CT_TEST(ckpt_torch, refuses_what_unfolds_without_end)
{
    CHECK_FAULT(ONE(TENSOR_OF(SIX, "K\x00", "J\xff\xff\xff\x7f\x85", "K\x00\x85")),
                "tensor \"w\": up to it, tensors unfold to many times the file");
    CHECK_FAULT(
        ONE(TENSOR_OF(SIX, "K\x00", "J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x87",
                      "K\x00K\x00K\x00\x87")),
        "tensor \"w\": its shape overflows");
}

CT_TEST(ckpt_torch, needs_to_know_which_map)
{
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};

#define TWO_MAPS "}(" STR("\x05", "model") ONE(GOOD) STR("\x0a", "state_dict") ONE(GOOD) "u"
    CHECK_FAULT(TWO_MAPS, "it holds a \"state_dict\" and a \"model\"; say which, with --key");
    CHECK_FAULT("}" STR("\x03", "net") ONE(GOOD) "s",
                "it holds no state dict of a usual name, but net; say which, with --key");
    CHECK_FAULT(GOOD, "it holds no state dict, but one tensor");
    CHECK_FAULT("](" GOOD "e", "it holds no state dict, but a list");
    CHECK_FAULT("}K\x03" GOOD "s", "the key 3 of a tensor is no text");
    CHECK_FAULT("}X\x03\x00\x00\x00"
                "a\x00"
                "b" GOOD "s",
                "object: offset 138: a key with a zero byte");
    CT_REQUIRE(
        read_legacy(&ckpt, "\x80\x02" TWO_MAPS ".", sizeof(TWO_MAPS) + 2, "model", DDP_OK, &err));
    CT_CHECK_STR(ckpt.taken, "model");
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "");
    CT_CHECK_STR(ckpt.others[0].name, "state_dict.w");
    harness_ckpt_fini(&ckpt);
    CT_CHECK(!read_legacy(&ckpt, "\x80\x02" TWO_MAPS ".", sizeof(TWO_MAPS) + 2, "other", DDP_E_KEYS,
                          &err));
    CT_CHECK_STR(err.text, "--key: there is no map \"other\" in it");
}

/* What is built here cannot be made by a text of the file. */
CT_TEST(ckpt_torch, texts_are_never_tensors)
{
    CHECK_FAULT(ONE("}" STR("\x07", "\xfftensor") "K\x00s"),
                "object: offset 10: a text that is not UTF-8, or memory is out");
}
