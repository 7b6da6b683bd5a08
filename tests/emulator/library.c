/* The emulated library of this build. */
#include "library.h"

#include <stdlib.h>

void library_use(void) {
    setenv("REPRISE_CUDA_LIBRARY", RP_EMULATOR_LIBRARY, 0);
}
