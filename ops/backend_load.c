/* Finds and loads the library of a backend. Nothing is remembered here: the loader knows what is
 * loaded, and asking it again is cheap. */
#define _GNU_SOURCE /* dladdr, RTLD_NODELETE */
#include "backend_load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "FOLDER/library", FOLDER being that of the object that holds this function. */
static bool find_beside(const char *library, char path[PATH_MAX]) {
    Dl_info info;
    void *self = NULL;
    rp_status (*function)(rp_context *, const char *, const char *, const char *,
                          const rp_backend **) = rp_backend_load;
    memcpy(&self, &function, sizeof self); /* ISO C has no cast from a function to an object */
    if (dladdr(self, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash != NULL ? (int)(slash - info.dli_fname) : 1;
    const int length =
        snprintf(path, PATH_MAX, "%.*s/%s", folder, slash != NULL ? info.dli_fname : ".", library);
    return length > 0 && length < PATH_MAX && access(path, R_OK) == 0;
}

static rp_status not_loaded(rp_context *context, const char *library, const char *path) {
    const char *words = dlerror();
    return rp_fail(context, RP_UNSUPPORTED, "no %s: looked for %.160s: %.240s", library, path,
                   words != NULL ? words : "not found");
}

static rp_status call_entry(rp_context *context, void *handle, const char *path, const char *entry,
                            const rp_backend **backend) {
    const rp_backend_interface own = rp_backend_own_interface();
    rp_backend_entry function = NULL;
    void *symbol = dlsym(handle, entry);
    if (symbol == NULL)
        return rp_fail(context, RP_UNSUPPORTED, "%.240s has no %s: it is no backend", path, entry);
    memcpy(&function, &symbol, sizeof function);
    *backend = function(&own);
    return *backend != NULL ? RP_OK
                            : rp_fail(context, RP_UNSUPPORTED,
                                      "%.240s is of another build than this library (version "
                                      "%s): install both together",
                                      path, RP_VERSION);
}

rp_status rp_backend_load(rp_context *context, const char *library, const char *variable,
                          const char *entry, const rp_backend **backend) {
    char beside[PATH_MAX];
    const char *path = getenv(variable);
    if (path == NULL || path[0] == 0)
        path = find_beside(library, beside) ? beside : library;
    *backend = NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL)
        return not_loaded(context, library, path);
    const rp_status status = call_entry(context, handle, path, entry, backend);
    dlclose(handle); /* its code stays */
    return status;
}
