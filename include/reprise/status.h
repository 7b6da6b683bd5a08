/* Statuses: what every call that can fail returns.
 *
 * The library never exits, aborts or prints. A call that fails returns one of these and leaves a
 * message in its context (rp_context_message) that says what was wrong and what was expected.
 */
#ifndef REPRISE_STATUS_H
#define REPRISE_STATUS_H

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, class, text). The class says what a failed call does to the object that it was called on:
 *   UNCHANGED  as if the call had not been made
 *   POISONED   good only for destroying
 * There is one exception: a run that a kernel or a custom op ended has begun to write, so its
 * executor is good only for destroying whatever the class of the status that they gave. */
#define RP_STATUS_LIST(X)                                                                          \
    X(RP_OK, UNCHANGED, "success")                                                                 \
    X(RP_INVALID_ARGUMENT, UNCHANGED, "an argument is out of range or missing")                    \
    X(RP_BAD_SHAPE, UNCHANGED, "shapes do not fit the operation")                                  \
    X(RP_BAD_DTYPE, UNCHANGED, "data types do not fit the operation")                              \
    X(RP_BAD_INPUT, UNCHANGED, "a file, graph or plan is malformed")                               \
    X(RP_BAD_STATE, UNCHANGED, "the object is not in a state that allows this call")               \
    X(RP_INFEASIBLE, UNCHANGED, "no plan fits the budget and the marks")                           \
    X(RP_NOT_APPLICABLE, UNCHANGED, "the strategy does not apply to this graph")                   \
    X(RP_UNSUPPORTED, UNCHANGED, "not supported")                                                  \
    X(RP_NOTHING_TO_DIFFERENTIATE, UNCHANGED, "the loss does not depend on anything trainable")    \
    X(RP_VALUE_CHANGED, POISONED, "a replay computed other bits than the first run")               \
    X(RP_OUT_OF_MEMORY, UNCHANGED, "out of memory")                                                \
    X(RP_DEVICE_ERROR, POISONED, "the device failed")                                              \
    X(RP_IO_ERROR, UNCHANGED, "a file cannot be read or written")                                  \
    X(RP_INTERNAL_ERROR, POISONED, "the library contradicts itself: please report this")

typedef enum rp_status {
#define RP_STATUS_ENUM(name, class, text) name,
    RP_STATUS_LIST(RP_STATUS_ENUM)
#undef RP_STATUS_ENUM
} rp_status;

/* The text of a status; never NULL, also for numbers that are none. */
RP_API const char *rp_status_text(rp_status status);

/* The name of a status as it is written in C, "RP_OK". */
RP_API const char *rp_status_name(rp_status status);

/* Non-zero when an object on which a call failed with this status may only be destroyed. */
RP_API int rp_status_is_poison(rp_status status);

#ifdef __cplusplus
}
#endif

#endif
