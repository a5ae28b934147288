/* Arguments of events as text and back: whatever is printed here can be read here. */
#include "harness/trace/event_format.h"

#include <inttypes.h>
#include <string.h>

#include "ddpcore/seam/access.h"
#include "ddpcore/seam/fault_point.h"

static void print_op(uint64_t packed, struct ddp_text *out)
{
    struct ddp_event_op op = ddp_event_op_unpack(packed);

    ddp_text_add(out, "%s/%s/%s/%s:%" PRIu32 "/root:%" PRIu32, ddp_coll_kind_name(op.kind),
                 ddp_redop_name(op.redop), ddp_dtype_name(op.dtype), ddp_coll_role_name(op.role),
                 op.index, op.root);
}

/* A core with a mistake may end a rank with a number that is no status: the record keeps it. */
static bool is_named(ddp_status status)
{
    ddp_status same;

    return ddp_status_parse(ddp_status_name(status), &same) == DDP_OK;
}

static void print_status(ddp_status status, struct ddp_text *out)
{
    if (is_named(status)) {
        ddp_text_add_str(out, ddp_status_name(status), 0);
    } else {
        ddp_text_add(out, "%d", (int)status);
    }
}

static ddp_status parse_status(const char *value, uint64_t *out)
{
    ddp_status status = DDP_OK;
    int64_t number;

    if (ddp_status_parse(value, &status) != DDP_OK) {
        DDP_TRY(ddp_text_parse_i64(value, &number));
        status = (ddp_status)(int32_t)number;
        if (number != (int64_t)status || is_named(status)) {
            return DDP_E_PARSE;
        }
    }
    *out = (uint64_t)(int64_t)status;
    return DDP_OK;
}

void harness_event_arg_print(const char *format, uint64_t value, struct ddp_text *out)
{
    const char *colon = strchr(format, ':');

    DDP_ASSERT(colon != NULL);
    ddp_text_add_str(out, " ", 0);
    ddp_text_add_str(out, colon + 1, 0);
    ddp_text_add_str(out, "=", 0);
    switch (format[0]) {
    case 'x':
    case 'h':
    case 'w':
        ddp_text_add_hex(out, value);
        break;
    case 'i':
        ddp_text_add(out, "%" PRId64, (int64_t)value);
        break;
    case 's':
        print_status((ddp_status)(int32_t)(uint32_t)value, out);
        break;
    case 'o':
        print_op(value, out);
        break;
    case 'p':
        ddp_text_add_str(out, ddp_fault_point_name((enum ddp_fault_point)value), 0);
        break;
    case 'a':
        ddp_text_add_str(out, ddp_access_name((enum ddp_access)value), 0);
        break;
    case 'k':
        ddp_text_add_str(out, ddp_range_kind_name((enum ddp_range_kind)value), 0);
        break;
    default:
        ddp_text_add_u64(out, value, 0);
        break;
    }
}

/* "all_reduce/sum/f32/bucket:1/root:0" */
static ddp_status parse_op(const char *text, uint64_t *out)
{
    char copy[128];
    char *part[5];
    char *save = NULL;
    struct ddp_event_op op = {0};
    uint64_t index = 0;
    uint64_t root = 0;
    char *colon;
    unsigned count = 0;

    if (strlen(text) >= sizeof copy) {
        return DDP_E_PARSE;
    }
    memcpy(copy, text, strlen(text) + 1);
    for (char *p = strtok_r(copy, "/", &save); p != NULL && count < 5;
         p = strtok_r(NULL, "/", &save)) {
        part[count++] = p;
    }
    if (count != 5 || strncmp(part[4], "root:", 5) != 0) {
        return DDP_E_PARSE;
    }
    colon = strchr(part[3], ':');
    if (colon == NULL) {
        return DDP_E_PARSE;
    }
    *colon = '\0';
    DDP_TRY(ddp_coll_kind_parse(part[0], &op.kind));
    DDP_TRY(ddp_redop_parse(part[1], &op.redop));
    DDP_TRY(ddp_dtype_parse(part[2], &op.dtype));
    DDP_TRY(ddp_coll_role_parse(part[3], &op.role));
    DDP_TRY(ddp_text_parse_u64(colon + 1, &index));
    DDP_TRY(ddp_text_parse_u64(part[4] + 5, &root));
    op.index = (uint32_t)index;
    op.root = (uint32_t)root;
    *out = ddp_event_op_pack(&op);
    return DDP_OK;
}

bool harness_event_arg_is_possible(const char *format, uint64_t value)
{
    switch (format[0]) {
    case 'b':
        return value <= 1;
    case 'h':
        return value != 0;
    case 'w':
        return value <= UINT32_MAX;
    default:
        return true;
    }
}

ddp_status harness_event_arg_parse(const char *format, const char *value, uint64_t *out)
{
    enum ddp_fault_point point;
    enum ddp_access access;
    enum ddp_range_kind kind;
    int64_t number = 0;

    switch (format[0]) {
    case 'x':
    case 'h':
    case 'w':
        return ddp_text_parse_hex(value, 16, out);
    case 'i':
        DDP_TRY(ddp_text_parse_i64(value, &number));
        *out = (uint64_t)number;
        return DDP_OK;
    case 's':
        return parse_status(value, out);
    case 'o':
        return parse_op(value, out);
    case 'p':
        DDP_TRY(ddp_fault_point_parse(value, &point));
        *out = (uint64_t)point;
        return DDP_OK;
    case 'a':
        DDP_TRY(ddp_access_parse(value, &access));
        *out = (uint64_t)access;
        return DDP_OK;
    case 'k':
        DDP_TRY(ddp_range_kind_parse(value, &kind));
        *out = (uint64_t)kind;
        return DDP_OK;
    default:
        return ddp_text_parse_u64(value, out);
    }
}
