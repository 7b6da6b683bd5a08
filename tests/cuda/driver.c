/* Stands in for libcuda.so.1 where there is no driver, so that cuDNN compiles its kernels into
 * plans: loading code succeeds, there is no device, and nothing can run. For test_cudnn_plans
 * alone, which loads it from the build folder by its path; never installed. */
#include <stdlib.h>

enum { SUCCESS = 0, NO_DEVICE = 100 };

static int kernel;

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = 0;
    return NO_DEVICE;
}

int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "no device: a driver that stands in for one";
    return SUCCESS;
}

int cuGetErrorName(int error, const char **text) {
    (void)error;
    *text = "CUDA_ERROR_NO_DEVICE";
    return SUCCESS;
}

int cuLibraryLoadData(void **library, const void *code, void *jit_options, void *jit_values,
                      unsigned jit_count, void *options, void *values, unsigned count) {
    (void)code;
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    *library = malloc(1);
    return *library != NULL ? SUCCESS : 2;
}

int cuLibraryUnload(void *library) {
    free(library);
    return SUCCESS;
}

int cuLibraryGetKernel(void **found, void *library, const char *name) {
    (void)library;
    (void)name;
    *found = &kernel;
    return SUCCESS;
}

int cuKernelSetAttribute(int attribute, int value, void *of, int device) {
    (void)attribute;
    (void)value;
    (void)of;
    (void)device;
    return SUCCESS;
}

/* Looked up when cuDNN loads; none is called while it plans. */
#define ABSENT(name)                                                                               \
    int name(void);                                                                                \
    int name(void) {                                                                               \
        return NO_DEVICE;                                                                          \
    }
ABSENT(cuInit)
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuStreamGetCtx)
ABSENT(cuLinkCreate)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkDestroy)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuDeviceGet)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuKernelGetAttribute)
ABSENT(cuOccupancyMaxPotentialClusterSize)
