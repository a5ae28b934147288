/* Status names and error text. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/status.h"
#include "tests/ct.h"

/* Every status has a name that parses back to it, and a meaning. */
CT_TEST(status, names_round_trip)
{
    static const ddp_status all[] = {
#define X(id, value, name, meaning) id,
        DDP_STATUS_TABLE(X)
#undef X
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ddp_status parsed = DDP_E_INVALID;

        CT_CHECK_OK(ddp_status_parse(ddp_status_name(all[i]), &parsed));
        CT_CHECK_EQ_I64(parsed, all[i]);
        CT_CHECK(strlen(ddp_status_text(all[i])) > 0);
    }
}

/* A value outside the table, as a damaged trace may hold, has a name too. */
CT_TEST(status, unknown_is_named)
{
    ddp_status parsed;

    CT_CHECK_STR(ddp_status_name((ddp_status)-99), "UNKNOWN");
    CT_CHECK_STATUS(ddp_status_parse("NO_SUCH", &parsed), DDP_E_NOT_FOUND);
}

/* Wrapping puts the outer place in front, and both calls hand the status through. */
CT_TEST(status, error_text_is_written_outside_in)
{
    struct ddp_err err;

    CT_CHECK_STATUS(ddp_err_set(&err, DDP_E_PARSE, "unknown key %s", "foo"), DDP_E_PARSE);
    CT_CHECK_STATUS(ddp_err_wrap(&err, DDP_E_PARSE, "line %d", 3), DDP_E_PARSE);
    CT_CHECK_STR(err.text, "line 3: unknown key foo");
    CT_CHECK_STATUS(ddp_err_set(NULL, DDP_E_IO, "unseen"), DDP_E_IO);
    CT_CHECK_STATUS(ddp_err_wrap(NULL, DDP_E_IO, "unseen"), DDP_E_IO);
    err.text[0] = '\0'; /* nobody said why: what the status means */
    CT_CHECK_STATUS(ddp_err_wrap(&err, DDP_E_NOMEM, "group %s", "world"), DDP_E_NOMEM);
    CT_CHECK_STR(err.text, "group world: memory could not be allocated");
}

/* Text that does not fit is cut at the end and stays terminated. */
CT_TEST(status, error_text_is_cut_not_overrun)
{
    struct ddp_err err;
    char inner[2000];

    memset(inner, 'x', sizeof(inner) - 1);
    inner[sizeof(inner) - 1] = '\0';
    (void)ddp_err_set(&err, DDP_E_IO, "%s", inner);
    CT_CHECK_EQ_U64(strlen(err.text), sizeof(err.text) - 1);
    (void)ddp_err_wrap(&err, DDP_E_IO, "outer");
    CT_CHECK_EQ_U64(strlen(err.text), sizeof(err.text) - 1);
    CT_CHECK(strncmp(err.text, "outer: xxx", 10) == 0);
}
