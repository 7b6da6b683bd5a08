/* On a GPU, with the library that programs use: the op cases of tests/ops, the promises and the
 * programs of tests/emulator. Without a device nothing of it can run: exit status 77. */
#include <stdio.h>

#include <reprise/backend.h>

#include "backend.h"
#include "ops/ops_device.h"
#include "unit.h"

enum { SKIPPED = 77 };

#define SUITES(X)                                                                                  \
    X(attention)                                                                                   \
    X(dropout)                                                                                     \
    X(elementwise)                                                                                 \
    X(math)                                                                                        \
    X(products)                                                                                    \
    X(promises)                                                                                    \
    X(rows)                                                                                        \
    X(shape)                                                                                       \
    X(sums)                                                                                        \
    X(update)

#define DECLARE(name) extern const rp_suite rp_suite_##name;
SUITES(DECLARE)
#undef DECLARE

static const rp_suite *const suites[] = {
#define ROW(name) &rp_suite_##name,
    SUITES(ROW)
#undef ROW
};

int main(int argc, char **argv) {
    char name[128];
    const rp_backend *backend = NULL;
    rp_context *context = NULL;
    rp_queue *queue = NULL;
    rp_status status = rp_context_create(NULL, &context);
    if (status == RP_OK)
        status = rp_backend_describe(context, RP_BACKEND_CUDA, name, sizeof name);
    if (status == RP_OK)
        status = rp_backend_find(context, RP_BACKEND_CUDA, &backend);
    if (status == RP_OK)
        status = rp_backend_open(backend, context, NULL, &queue);
    if (status != RP_OK) {
        printf("test_cuda: %s: %s\n", status == RP_DEVICE_ERROR ? "skipped" : "failed",
               rp_context_message(context));
        rp_context_destroy(context);
        return status == RP_DEVICE_ERROR ? SKIPPED : 1;
    }
    printf("device: %s\n", name);
    ops_device_use(backend, queue);
    ops_device_use_libraries();
    const int result = rp_unit_main(argc, argv, suites, sizeof suites / sizeof suites[0]);
    rp_backend_close(backend, queue);
    rp_context_destroy(context);
    return result;
}
