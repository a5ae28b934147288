/* Status codes and error text.
 *
 * One status type for the whole project: 0 is success, 1 is "not finished, poll again", negative
 * values are errors. Every fallible function returns only a status; results travel through
 * out-parameters. Text for people goes into a caller-owned struct ddp_err, and only at boundaries
 * (parsing, opening, connecting): the data path returns codes. */
#ifndef DDPCORE_BASE_STATUS_H
#define DDPCORE_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_MUST_USE                        __attribute__((warn_unused_result))
#define DDP_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))

/* X(identifier, value, name, meaning). Names are what scenarios, traces and reports use. */
#define DDP_STATUS_TABLE(X)                                                                      \
    X(DDP_OK, 0, "OK", "success")                                                                \
    X(DDP_PENDING, 1, "PENDING", "not finished; poll again")                                     \
    X(DDP_E_INVALID, -1, "INVALID", "an argument is out of its documented range")                \
    X(DDP_E_STATE, -2, "STATE", "the call is not allowed in the present state")                  \
    X(DDP_E_TIMEOUT, -3, "TIMEOUT", "the deadline passed")                                       \
    X(DDP_E_NOMEM, -4, "NOMEM", "memory could not be allocated")                                 \
    X(DDP_E_IO, -5, "IO", "a file or socket operation failed")                                   \
    X(DDP_E_PARSE, -6, "PARSE", "text does not follow its grammar")                              \
    X(DDP_E_UNSUPPORTED, -7, "UNSUPPORTED", "this implementation lacks the operation")           \
    X(DDP_E_NOT_FOUND, -8, "NOT_FOUND", "no entry of that name")                                 \
    X(DDP_E_PEER_DIED, -9, "PEER_DIED", "another rank's process ended while it was needed")      \
    X(DDP_E_REVOKED, -10, "REVOKED", "a rank revoked the group; see its revocation record")      \
    X(DDP_E_MISMATCH, -11, "MISMATCH", "ranks posted different operations")                      \
    X(DDP_E_UNUSED_PARAMETER, -12, "UNUSED_PARAMETER", "parameters got no gradient")             \
    X(DDP_E_READY_TWICE, -13, "READY_TWICE", "a gradient was reported ready twice in a step")    \
    X(DDP_E_EARLY_TERMINATION, -14, "EARLY_TERMINATION", "a rank ran out of inputs inside join") \
    X(DDP_E_CORRUPT, -15, "CORRUPT", "stored data is damaged or truncated")                      \
    X(DDP_E_KEYS, -16, "KEYS", "state dict keys are missing or unexpected")                      \
    X(DDP_E_PREFIX, -17, "PREFIX", "state dict keys carry an ambiguous or unresolved prefix")    \
    X(DDP_E_SHAPE, -18, "SHAPE", "a shape or dtype differs from what was expected")              \
    X(DDP_E_MODEL, -19, "MODEL", "ranks hold different models or configurations")                \
    X(DDP_E_SYSTEM, -20, "SYSTEM", "an operating system call failed")                            \
    X(DDP_E_OVERFLOW, -21, "OVERFLOW", "a fixed capacity was exceeded")                          \
    X(DDP_E_INJECTED, -22, "INJECTED", "a fault point made the operation fail")                  \
    X(DDP_E_DEVICE, -23, "DEVICE", "the device, its driver or its library reported an error")    \
    X(DDP_E_DEVICE_MEMORY, -24, "DEVICE_MEMORY", "memory of the device could not be allocated")  \
    X(DDP_E_NO_SPACE, -25, "NO_SPACE", "no space is left on the disk")                           \
    X(DDP_E_NO_FD, -26, "NO_FD", "no file descriptor is left")                                   \
    X(DDP_E_MEMBER, -27, "MEMBER", "ranks disagree about who is which member of a group")        \
    X(DDP_E_MESSAGE, -28, "MESSAGE", "a message of another rank was lost, or came out of turn")

typedef enum ddp_status {
#define X(id, value, name, meaning) id = value,
    DDP_STATUS_TABLE(X)
#undef X
} ddp_status;

/* Name of a status ("PEER_DIED"), or "UNKNOWN". Static storage. */
const char *ddp_status_name(ddp_status status);
/* One-phrase meaning of a status. Static storage. */
const char *ddp_status_text(ddp_status status);
/* Inverse of ddp_status_name. Errors: E_NOT_FOUND. */
DDP_MUST_USE ddp_status ddp_status_parse(const char *name, ddp_status *out);

/* Error text, owned by the caller, written outside-in: "plan x.yaml: line 3: unknown key". */
struct ddp_err {
    char text[1024];
};

/* Replace the text and return status. err may be NULL. */
ddp_status ddp_err_set(struct ddp_err *err, ddp_status status, const char *format, ...)
    DDP_PRINTF(3, 4);
/* Put "<formatted>: " before the present text, or what status means, and return status. err may be
 * NULL. */
ddp_status ddp_err_wrap(struct ddp_err *err, ddp_status status, const char *format, ...)
    DDP_PRINTF(3, 4);

/* Leave the function with anything but DDP_OK (PENDING is returned like an error). */
#define DDP_TRY(expression)                       \
    do {                                          \
        ddp_status ddp_try_status = (expression); \
        if (ddp_try_status != DDP_OK) {           \
            return ddp_try_status;                \
        }                                         \
    } while (0)

/* Programmer errors: on in every build. Prints place and condition to stderr, then aborts. */
#define DDP_ASSERT(condition)                                          \
    do {                                                               \
        if (__builtin_expect(!(condition), 0)) {                       \
            ddp_assert_fail(#condition, __FILE__, __LINE__, __func__); \
        }                                                              \
    } while (0)

void ddp_assert_fail(const char *condition, const char *file, int line, const char *function)
    __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
