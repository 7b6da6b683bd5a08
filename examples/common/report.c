/* Result objects in JSON. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

json_t *report_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *report_hash(uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

json_t *report_text(const char *text) {
    char plain[256];
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    size_t length = 0;
    for (; text[length] != '\0' && length + 1 < sizeof plain; length++)
        plain[length] = (unsigned char)text[length] < 0x80 ? text[length] : '?';
    plain[length] = '\0';
    return json_string(plain);
}

bool report_open(report_target *target, const char *path, output_set *outputs, failure *failure) {
    *target = (report_target){path, NULL};
    if (path == NULL || strcmp(path, "-") == 0)
        return true;
    target->temporary = outputs_add(outputs, "--json", path, failure);
    return target->temporary != NULL;
}

bool report_flush_stdout(failure *failure) {
    if (fflush(stdout) != 0 || ferror(stdout))
        return fail_write(failure, "standard output");
    return true;
}

static bool write_object(const report_target *target, const json_t *object, failure *failure) {
    const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(17);
    if (target->temporary == NULL) {
        const bool dumped = json_dumpf(object, stdout, flags) == 0;
        putchar('\n');
        return dumped ? report_flush_stdout(failure) : fail_memory(failure, "the result object");
    }
    FILE *file = fopen(target->temporary, "wb");
    if (file == NULL)
        return fail_write(failure, "--json");
    const bool good = json_dumpf(object, file, flags) == 0 && fputc('\n', file) != EOF;
    return (fclose(file) == 0 && good) || fail_write(failure, "--json");
}

bool report_write(const report_target *target, json_t *object, failure *failure) {
    if (object == NULL)
        return fail_memory(failure, "the result object");
    const bool good = target->path == NULL || write_object(target, object, failure);
    json_decref(object);
    return good;
}
