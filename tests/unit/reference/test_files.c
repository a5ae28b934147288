/* Data and weights of the user's files: what is right is read, what is wrong has one error that
 * says where. */
#include <math.h>
#include <string.h>

#include "reference/data_file.h"
#include "reference/initial.h"
#include "tests/ct.h"

static struct ref_bytes bytes_of(const char *text)
{
    return (struct ref_bytes){(const unsigned char *)text, strlen(text)};
}

/* A heading, empty lines, both ends of lines, spaces; the last line without an end. */
CT_TEST(files, csv_is_read)
{
    const struct ref_bytes text = bytes_of("a,b,label\n1,-2.5,0\r\n\n 3e1,.25 ,2\n0,7,1");
    static const float wanted[6] = {1.0F, -2.5F, 30.0F, 0.25F, 0.0F, 7.0F};
    struct ref_data_sizes sizes;
    float features[6];
    int32_t labels[3];
    struct ddp_err err;

    CT_REQUIRE_OK(ref_data_read_csv(&text, &sizes, NULL, NULL, &err));
    CT_CHECK(sizes.sample_count == 3 && sizes.feature_count == 2 && sizes.class_count == 3);
    CT_CHECK(sizes.label_count == 1 && sizes.target_count == 0 && sizes.learned == REF_DATA_LABELS);
    CT_REQUIRE_OK(ref_data_read_csv(&text, &sizes, features, labels, &err));
    CT_CHECK_BYTES(features, wanted, sizeof(wanted));
    CT_CHECK(labels[0] == 0 && labels[1] == 2 && labels[2] == 1);
    sizes.sample_count = 2; /* the first ones alone */
    CT_CHECK_OK(ref_data_read_csv(&text, &sizes, features, labels, &err));
}

/* Each with the line it is in. */
CT_TEST(files, csv_is_refused)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"", "0 samples"},
        {"a,b\n", "0 samples"},
        {"1,2,0\n1,0\n", "line 2 has 2 entries"},
        {"1,2,0\n1,x,0\n", "line 2: entry 2 is no number"},
        {"1,2,0\n\n1,,0\n", "line 3: entry 2 is no number"},
        {"1,2,0\n1,2,\n", "line 2: entry 2 is no number"},
        {"1,0\n2,-1\n", "line 2 ends in -1, which is no label"},
        {"1,0\n2,1.5\n", "line 2 ends in 1.5, which is no label"},
        {"1,0\n2,65536\n", "which is no label"},
        {"1,0\nnan,1\n", "line 2: entry 1 is no number"},
        {"1,0\n1e99,1\n", "line 2: entry 1 is no number"},
        {"1\n2\n", "line 1 has 1 entries"},
    };
    struct ref_data_sizes sizes;
    struct ddp_err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct ref_bytes text = bytes_of(cases[i].text);

        CT_CHECK_STATUS(ref_data_read_csv(&text, &sizes, NULL, NULL, &err), DDP_E_CORRUPT);
        if (strstr(err.text, cases[i].said) == NULL) {
            CT_FAIL("%s said: %s", cases[i].text, err.text);
        }
    }
}

/* Two images of 1 x 3 pixels, and their labels. */
static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0,  2,   0,   0, 0,
                                       1, 0, 0, 0, 3, 0, 51, 255, 102, 0, 1};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 7};

CT_TEST(files, idx_is_read)
{
    const struct ref_bytes a = {images, sizeof(images)};
    const struct ref_bytes b = {labels, sizeof(labels)};
    struct ref_data_sizes sizes;
    float features[6];
    int32_t classes[2];
    struct ddp_err err;

    CT_REQUIRE_OK(ref_data_read_idx(&a, &b, &sizes, NULL, NULL, &err));
    CT_CHECK(sizes.sample_count == 2 && sizes.feature_count == 3 && sizes.class_count == 8);
    CT_REQUIRE_OK(ref_data_read_idx(&a, &b, &sizes, features, classes, &err));
    CT_CHECK(features[0] == 0.0F && features[1] == 51.0F / 255.0F && features[2] == 1.0F);
    CT_CHECK(features[5] == 1.0F / 255.0F && classes[0] == 4 && classes[1] == 7);
}

/* Cut short anywhere, too long, another type, no images, other numbers: never read behind the end.
 */
CT_TEST(files, idx_is_refused)
{
    const struct ref_bytes whole = {images, sizeof(images)};
    const struct ref_bytes right = {labels, sizeof(labels)};
    unsigned char changed[sizeof(images) + 1];
    struct ref_data_sizes sizes;
    struct ddp_err err;

    for (size_t size_bytes = 0; size_bytes < sizeof(images); size_bytes++) {
        const struct ref_bytes cut = {images, size_bytes};
        CT_CHECK_STATUS(ref_data_read_idx(&cut, &right, &sizes, NULL, NULL, &err), DDP_E_CORRUPT);
    }
    for (size_t size_bytes = 0; size_bytes < sizeof(labels); size_bytes++) {
        const struct ref_bytes cut = {labels, size_bytes};
        CT_CHECK_STATUS(ref_data_read_idx(&whole, &cut, &sizes, NULL, NULL, &err), DDP_E_CORRUPT);
    }
    for (size_t at = 0; at < 16; at++) {
        const struct ref_bytes other = {changed, sizeof(images)};

        memcpy(changed, images, sizeof(images));
        changed[at] += 1;
        CT_CHECK_STATUS(ref_data_read_idx(&other, &right, &sizes, NULL, NULL, &err), DDP_E_CORRUPT);
    }
}

/* A safetensors file of the header given and 24 bytes of tensors. */
static size_t make_file(const char *header, unsigned char *out)
{
    const size_t length = strlen(header);

    memset(out, 0, 8);
    out[0] = (unsigned char)(length % 256);
    out[1] = (unsigned char)(length / 256);
    memcpy(out + 8, header, length);
    for (size_t i = 0; i < 24; i++) {
        out[8 + length + i] = (unsigned char)i;
    }
    return 8 + length + 24;
}

static ddp_status find(const char *header, enum ddp_dtype dtype, uint32_t ndim, const size_t *shape,
                       struct ddp_err *err)
{
    unsigned char file[1024];
    const size_t size_bytes = make_file(header, file);
    struct ref_initial *initial = NULL;
    const void *data = NULL;
    ddp_status status = ref_initial_parse(ddp_mem_system(), file, size_bytes, &initial, err);

    if (status == DDP_OK) {
        status = ref_initial_find(initial, "a", dtype, ndim, shape, &data, err);
        CT_CHECK(status != DDP_OK || data == file + size_bytes - 24);
        ref_initial_close(initial);
    }
    return status;
}

#define ENTRY(type, shape, begin, end)                                               \
    "{\"__metadata__\":{\"x\":\"y\"},\"a\":{\"dtype\":\"" type "\",\"shape\":" shape \
    ",\"data_offsets\":[" begin "," end "]}}"

/* Type, shape and place must be right; one element may have no dimension. */
CT_TEST(files, initial_weights)
{
    const size_t shape[2] = {2, 3};
    const size_t one[1] = {1};
    struct ddp_err err;

    CT_CHECK_OK(find(ENTRY("F32", "[2,3]", "0", "24"), DDP_DTYPE_F32, 2, shape, &err));
    CT_CHECK_OK(find(ENTRY("I64", "[]", "0", "8"), DDP_DTYPE_I64, 1, one, &err));
    CT_CHECK_OK(find(ENTRY("I64", "[1]", "0", "8"), DDP_DTYPE_I64, 1, one, &err));
    CT_CHECK_STATUS(find("{}", DDP_DTYPE_F32, 2, shape, &err), DDP_E_KEYS);
    CT_CHECK_STATUS(find(ENTRY("F16", "[2,3]", "0", "24"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_SHAPE);
    CT_CHECK_STATUS(find(ENTRY("F32", "[3,2]", "0", "24"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_SHAPE);
    CT_CHECK_STATUS(find(ENTRY("F32", "[6]", "0", "24"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_SHAPE);
    CT_CHECK_STATUS(find(ENTRY("F32", "[]", "0", "24"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_SHAPE);
    CT_CHECK_STATUS(find(ENTRY("F32", "[2,3]", "0", "20"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_CORRUPT);
    CT_CHECK_STATUS(find(ENTRY("F32", "[2,3]", "4", "28"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_CORRUPT);
    CT_CHECK_STATUS(find(ENTRY("F32", "[2,3]", "-4", "20"), DDP_DTYPE_F32, 2, shape, &err),
                    DDP_E_CORRUPT);
    CT_CHECK_STATUS(find("{\"a\":1,\"a\":2}", DDP_DTYPE_F32, 2, shape, &err), DDP_E_CORRUPT);
    CT_CHECK_STATUS(find("[1]", DDP_DTYPE_F32, 2, shape, &err), DDP_E_CORRUPT);
}

/* A header longer than the file, and a file shorter than its length. */
CT_TEST(files, initial_weights_cut_short)
{
    unsigned char file[1024];
    const size_t size_bytes = make_file("{}", file);
    struct ref_initial *initial = NULL;
    struct ddp_err err;

    for (size_t i = 0; i < 10; i++) {
        CT_CHECK_STATUS(ref_initial_parse(ddp_mem_system(), file, i, &initial, &err),
                        DDP_E_CORRUPT);
    }
    file[7] = 255;
    CT_CHECK_STATUS(ref_initial_parse(ddp_mem_system(), file, size_bytes, &initial, &err),
                    DDP_E_CORRUPT);
    CT_CHECK_STATUS(ref_initial_open(ddp_mem_system(), "/nowhere/x", &initial, &err),
                    DDP_E_NOT_FOUND);
}
