/* Stands in for definitions that have not been written yet, so that everything links. Last in the
 * list of sources: a definition of the same name replaces it. Goes away with the last missing op.
 */
#include "op.h"

#define WEAK_DEF(id, name)                                                                         \
    __attribute__((weak))                                                                          \
    const rp_op_def rp_op_def_##name = {#name, NULL, NULL, NULL, NULL, NULL, 0, 0, {{0, 0}}};
RP_OP_LIST(WEAK_DEF)
