/* The promises through the whole library, and train_gpt: on the emulated device, or on the one of
 * the library that REPRISE_CUDA_LIBRARY names. */
#include "library.h"
#include "unit.h"

extern const rp_suite rp_suite_promises, rp_suite_training;

int main(int argc, char **argv) {
    static const rp_suite *const suites[] = {&rp_suite_promises, &rp_suite_training};
    library_use();
    return rp_unit_main(argc, argv, suites, sizeof suites / sizeof suites[0]);
}
