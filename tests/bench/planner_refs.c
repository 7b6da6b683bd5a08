/* What is known of graphs from elsewhere. */
#include "planner_refs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Overheads in the file are rounded. */
static const double rounding = 1.5e-4;

json_t *rp_refs_load_beside(const char *path) {
    char beside[4096];
    const char *slash = strrchr(path, '/');
    const int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    snprintf(beside, sizeof beside, "%.*srefs.json", folder, path);
    return json_load_file(beside, 0, NULL);
}

const json_t *rp_refs_find(const json_t *refs, const char *graph) {
    return json_object_get(json_object_get(refs, "graphs"), graph);
}

int64_t rp_refs_keep_all(const json_t *of_graph) {
    const json_t *peak = json_object_get(of_graph, "keep_all_peak_bytes");
    return json_is_integer(peak) ? (int64_t)json_integer_value(peak) : -1;
}

static int64_t count_of(const json_t *entry, const char *field, int64_t otherwise) {
    const json_t *number = json_object_get(entry, field);
    return json_is_integer(number) ? (int64_t)json_integer_value(number) : otherwise;
}

static double real_of(const json_t *entry, const char *field) {
    const json_t *number = json_object_get(entry, field);
    return json_is_number(number) ? json_number_value(number) : -1;
}

static bool has_word(const json_t *entry, const char *field, const char *word) {
    const char *text = json_string_value(json_object_get(entry, field));
    return text != NULL && strstr(text, word) != NULL;
}

static int by_budget(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

size_t rp_refs_budgets(const json_t *of_graph, int64_t *budgets, size_t most) {
    const json_t *entries = json_object_get(of_graph, "entries");
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < json_array_size(entries) && count < most; i++)
        budgets[count++] = count_of(json_array_get(entries, i), "budget_bytes", 0);
    qsort(budgets, count, sizeof *budgets, by_budget);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || budgets[kept - 1] != budgets[i])
            budgets[kept++] = budgets[i];
    return kept;
}

static void look_at(const json_t *entry, int64_t budget, rp_known *known) {
    const int64_t at = count_of(entry, "budget_bytes", 0);
    const double overhead = real_of(entry, "overhead"), bound = real_of(entry, "lower_bound");
    if (overhead >= 0 && count_of(entry, "peak_bytes", at) <= budget &&
        (known->best < 0 || overhead < known->best))
        known->best = overhead;
    if (bound > known->bound && at >= budget && has_word(entry, "space", "all"))
        known->bound = bound;
    if (at != budget || !has_word(entry, "source", "h_DTR"))
        return;
    if (overhead >= 0 && (known->online < 0 || overhead < known->online))
        known->online = overhead;
    known->online_out = known->online_out || has_word(entry, "status", "oom") ||
                        has_word(entry, "status", "thrash");
}

rp_known rp_refs_known(const json_t *of_graph, int64_t budget) {
    const json_t *entries = json_object_get(of_graph, "entries");
    rp_known known = {-1, -1, false, -1, false};
    for (size_t i = 0; i < json_array_size(entries); i++)
        look_at(json_array_get(entries, i), budget, &known);
    known.proven = known.best >= 0 && known.bound >= 0 && known.best <= known.bound + rounding;
    known.online_out = known.online_out && known.online < 0;
    return known;
}
