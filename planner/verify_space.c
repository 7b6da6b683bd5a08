/* Addresses in time, for the verifier. */
#include "verify_space.h"

#include <stdlib.h>
#include <string.h>

static int compare_entries(const void *a, const void *b) {
    const rp_placement *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->value == y->value ? 0 : x->value < y->value ? -1 : 1;
}

static int compare_addresses(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x == y ? 0 : x < y ? -1 : 1;
}

static rp_status fail_entry(const rp_space *space, const rp_placement *entry, const char *reason) {
    if (entry->value == RP_NONE)
        return rp_fail(space->graph->context, RP_BAD_INPUT,
                       "offsets: the workspace of step %u at %lld %s", entry->step,
                       (long long)entry->offset, reason);
    return rp_fail(space->graph->context, RP_BAD_INPUT,
                   "offsets: step %u, value %u (%.80s) at %lld %s", entry->step, entry->value,
                   rp_value_name(space->graph, entry->value), (long long)entry->offset, reason);
}

/* ---- The tree: node p has children 2p and 2p + 1, leaf i is node leaves + i ---- */

static void pull(rp_space *s, size_t p) {
    rp_space_node *node = &s->nodes[p];
    if (node->covered > 0) {
        node->free_left = node->free_right = node->free_best = 0;
        return;
    }
    if (p >= s->leaves) {
        node->free_left = node->free_right = node->free_best = node->length;
        return;
    }
    const rp_space_node *l = &s->nodes[2 * p], *r = l + 1;
    node->free_left = l->free_left == l->length ? l->length + r->free_left : l->free_left;
    node->free_right = r->free_right == r->length ? r->length + l->free_right : r->free_right;
    int64_t best = l->free_right + r->free_left;
    best = l->free_best > best ? l->free_best : best;
    node->free_best = r->free_best > best ? r->free_best : best;
}

static size_t address_index(const rp_space *s, int64_t address) {
    size_t low = 0, high = s->address_count - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->addresses[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cover(rp_space *s, int64_t offset, int64_t bytes, bool add) {
    const size_t first = s->leaves + address_index(s, offset);
    const size_t last = s->leaves + address_index(s, offset + bytes) - 1;
    const uint32_t change = add ? 1u : (uint32_t)-1;
    for (size_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
        if (l % 2 == 1) {
            s->nodes[l].covered += change;
            pull(s, l++);
        }
        if (r % 2 == 1) {
            s->nodes[--r].covered += change;
            pull(s, r);
        }
    }
    for (size_t p = first / 2, q = last / 2; p > 0; p /= 2, q /= 2) {
        pull(s, p);
        if (q != p)
            pull(s, q);
    }
}

static bool is_free(const rp_space *s, int64_t offset, int64_t bytes) {
    const size_t first = s->leaves + address_index(s, offset);
    const size_t last = s->leaves + address_index(s, offset + bytes) - 1;
    for (size_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
        if (l % 2 == 1 && s->nodes[l].free_best != s->nodes[l].length)
            return false;
        if (r % 2 == 1 && s->nodes[r - 1].free_best != s->nodes[r - 1].length)
            return false;
        l += l % 2;
        r -= r % 2;
    }
    for (size_t p = first / 2, q = last / 2; p > 0; p /= 2, q /= 2)
        if (s->nodes[p].covered > 0 || s->nodes[q].covered > 0)
            return false;
    return true;
}

static rp_status build_tree(rp_space *s) {
    rp_context *context = s->graph->context;
    s->leaves = 1;
    while (s->leaves + 1 < s->address_count)
        s->leaves *= 2;
    s->nodes = rp_alloc(context, 2 * s->leaves, sizeof *s->nodes);
    if (s->nodes == NULL)
        return rp_fail_memory(context, "the check of a layout");
    for (size_t i = 0; i + 1 < s->address_count; i++)
        s->nodes[s->leaves + i].length = s->addresses[i + 1] - s->addresses[i];
    for (size_t p = 2 * s->leaves - 1; p > 0; p--) {
        if (p < s->leaves)
            s->nodes[p].length = s->nodes[2 * p].length + s->nodes[2 * p + 1].length;
        pull(s, p);
    }
    return RP_OK;
}

/* ---- Entries ---- */

/* What an entry holds; -1 where it means nothing. Views and empty values hold 0. */
static int64_t entry_bytes(const rp_space *s, const rp_placement *entry, const rp_step *steps,
                           size_t step_count) {
    if (entry->value == RP_NONE) {
        if (entry->step >= step_count || steps[entry->step].kind != RP_STEP_RUN)
            return -1;
        return s->graph->nodes[steps[entry->step].index].workspace;
    }
    return s->graph->values[entry->value].bytes;
}

static rp_status check_entry(const rp_space *s, const rp_placement *entry, int64_t bytes) {
    rp_context *context = s->graph->context;
    int64_t end = 0;
    if (bytes < 0)
        return rp_fail(context, RP_BAD_INPUT,
                       "offsets: step %u has a workspace entry but runs no node", entry->step);
    if (entry->offset < 0)
        return fail_entry(s, entry, "is negative");
    if (entry->offset % s->graph->alignment != 0)
        return fail_entry(s, entry, "is not aligned");
    if (bytes > 0 && (!rp_checked_add(entry->offset, bytes, &end) || end > s->limit))
        return fail_entry(s, entry, "ends above peak_bytes");
    return RP_OK;
}

/* Checks each entry by itself and notes the addresses at which something can begin or end. */
static rp_status read_entries(rp_space *s, const rp_step *steps, size_t step_count) {
    rp_context *context = s->graph->context;
    s->addresses = rp_alloc(context, 2 * s->entry_count + 2, sizeof *s->addresses);
    if (s->addresses == NULL)
        return rp_fail_memory(context, "the check of a layout");
    size_t n = 0;
    s->addresses[n++] = 0;
    s->addresses[n++] = s->limit;
    for (size_t i = 0; i < s->entry_count; i++) {
        const rp_placement *entry = &s->entries[i];
        const int64_t bytes = entry_bytes(s, entry, steps, step_count);
        const rp_status status = check_entry(s, entry, bytes);
        if (status != RP_OK)
            return status;
        if (i > 0 && compare_entries(entry - 1, entry) == 0)
            return fail_entry(s, entry, "has two entries");
        if (bytes == 0) {
            s->used[i] = true;
            continue;
        }
        s->addresses[n++] = entry->offset;
        s->addresses[n++] = entry->offset + bytes;
    }
    qsort(s->addresses, n, sizeof *s->addresses, compare_addresses);
    s->address_count = 0;
    for (size_t i = 0; i < n; i++)
        if (s->address_count == 0 || s->addresses[s->address_count - 1] != s->addresses[i])
            s->addresses[s->address_count++] = s->addresses[i];
    return RP_OK;
}

static void take(rp_space *s, size_t entry, int64_t bytes) {
    s->used[entry] = true;
    const int64_t end = s->entries[entry].offset + bytes + s->outside;
    if (end > s->arena)
        s->arena = end;
    cover(s, s->entries[entry].offset, bytes, true);
}

/* Persistent values hold their place from start to end. All have one or none has. */
static rp_status place_persistent(rp_space *s) {
    const rp_value *values = s->graph->values;
    bool *placed = rp_alloc(s->graph->context, s->graph->value_count, sizeof *placed);
    if (placed == NULL)
        return rp_fail_memory(s->graph->context, "the check of a layout");
    rp_status status = RP_OK;
    for (size_t i = 0; i < s->entry_count && status == RP_OK; i++) {
        const rp_placement *entry = &s->entries[i];
        if (entry->value == RP_NONE || !values[entry->value].persistent || s->used[i])
            continue;
        if (placed[entry->value])
            status = fail_entry(s, entry, "is persistent and has two entries");
        else if (!is_free(s, entry->offset, values[entry->value].bytes))
            status = fail_entry(s, entry, "overlaps another persistent value");
        else
            take(s, i, values[entry->value].bytes);
        placed[entry->value] = true;
    }
    for (uint32_t v = 0; v < s->graph->value_count && status == RP_OK && s->outside == 0; v++)
        if (values[v].persistent && values[v].bytes > 0 && !placed[v])
            status = rp_fail(s->graph->context, RP_BAD_INPUT,
                             "offsets: persistent value %u (%.80s) has no place although others "
                             "have one",
                             v, rp_value_name(s->graph, v));
    rp_free(s->graph->context, placed);
    return status;
}

static bool any_persistent_entry(const rp_space *s) {
    for (size_t i = 0; i < s->entry_count; i++)
        if (s->entries[i].value != RP_NONE && s->graph->values[s->entries[i].value].bytes > 0 &&
            s->graph->values[s->entries[i].value].persistent)
            return true;
    return false;
}

rp_status rp_space_create(const rp_graph *graph, const rp_step *steps, size_t step_count,
                          const rp_placement *placements, size_t placement_count,
                          int64_t peak_bytes, rp_space *space) {
    rp_context *context = graph->context;
    *space = (rp_space){.graph = graph, .entry_count = placement_count};
    rp_status status = RP_OK;
    if (peak_bytes < graph->persistent_bytes)
        return rp_fail(context, RP_BAD_INPUT,
                       "peak_bytes says %lld, but the persistent values alone have %lld bytes",
                       (long long)peak_bytes, (long long)graph->persistent_bytes);
    for (size_t i = 0; i < placement_count; i++)
        if (placements[i].value != RP_NONE && placements[i].value >= graph->value_count)
            return rp_fail(context, RP_BAD_INPUT, "offsets: there is no value %u",
                           placements[i].value);
    space->entries = rp_resize(context, NULL, placement_count, sizeof *space->entries);
    space->used = rp_alloc(context, placement_count, sizeof *space->used);
    if (space->entries == NULL || space->used == NULL) {
        status = rp_fail_memory(context, "the check of a layout");
        goto fail;
    }
    if (placement_count > 0) {
        memcpy(space->entries, placements, placement_count * sizeof *space->entries);
        qsort(space->entries, placement_count, sizeof *space->entries, compare_entries);
    }
    space->outside = any_persistent_entry(space) ? 0 : graph->persistent_bytes;
    space->limit = peak_bytes - space->outside;
    space->arena = graph->persistent_bytes;
    status = read_entries(space, steps, step_count);
    if (status == RP_OK)
        status = build_tree(space);
    if (status == RP_OK)
        status = place_persistent(space);
    if (status == RP_OK)
        return RP_OK;
fail:
    rp_space_clear(space);
    return status;
}

void rp_space_clear(rp_space *space) {
    rp_context *context = space->graph->context;
    rp_free(context, space->entries);
    rp_free(context, space->used);
    rp_free(context, space->addresses);
    rp_free(context, space->nodes);
    rp_free(context, space->found);
    *space = (rp_space){.graph = space->graph};
}

void rp_space_enter(rp_space *space, uint32_t step) {
    while (space->end < space->entry_count && space->entries[space->end].step < step)
        space->end++;
    space->begin = space->end;
    while (space->end < space->entry_count && space->entries[space->end].step == step)
        space->end++;
}

/* The entry of the step at hand for `value`, or entry_count. */
static size_t find_entry(const rp_space *s, uint32_t value) {
    size_t low = s->begin, high = s->end;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->entries[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->end && s->entries[low].value == value ? low : s->entry_count;
}

rp_status rp_space_begin(rp_space *space, uint32_t step, uint32_t value, int64_t bytes,
                         int64_t over, int64_t *offset) {
    const size_t entry = find_entry(space, value);
    if (entry == space->entry_count)
        return rp_fail(space->graph->context, RP_BAD_INPUT,
                       "offsets: value %u (%.80s) begins at step %u and has no entry", value,
                       rp_value_name(space->graph, value), step);
    *offset = space->entries[entry].offset;
    if (*offset != over && !is_free(space, *offset, bytes))
        return fail_entry(space, &space->entries[entry], "overlaps a value that is live");
    take(space, entry, bytes);
    return RP_OK;
}

void rp_space_end(rp_space *space, int64_t offset, int64_t bytes) {
    cover(space, offset, bytes, false);
}

/* The lowest free address with `bytes` free bytes behind it; there is one. */
static int64_t lowest_hole(const rp_space *s, int64_t bytes) {
    int64_t begin = 0;
    for (size_t p = 1; p < s->leaves;) {
        const rp_space_node *l = &s->nodes[2 * p], *r = l + 1;
        p *= 2;
        if (l->free_best >= bytes)
            continue;
        begin += l->length;
        if (l->free_right + r->free_left >= bytes)
            return begin - l->free_right;
        p++;
    }
    return begin;
}

/* Without an entry, a workspace lies in the lowest hole. */
static rp_status find_workspace(rp_space *space, uint32_t step, uint32_t node) {
    rp_context *context = space->graph->context;
    const int64_t bytes = space->graph->nodes[node].workspace;
    if (space->nodes[1].free_best < bytes)
        return rp_fail(context, RP_BAD_INPUT,
                       "offsets: step %u: no hole of %lld bytes for the workspace of node %u "
                       "(%.80s)",
                       step, (long long)bytes, node, rp_node_name(space->graph, node));
    if (!rp_reserve(context, &space->found, &space->found_capacity, space->found_count + 1,
                    sizeof *space->found))
        return rp_fail_memory(context, "the check of a layout");
    const int64_t offset = lowest_hole(space, bytes);
    space->found[space->found_count++] = (rp_placement){step, RP_NONE, offset};
    if (offset + bytes + space->outside > space->arena)
        space->arena = offset + bytes + space->outside;
    return RP_OK;
}

rp_status rp_space_workspace(rp_space *space, uint32_t step, uint32_t node) {
    const int64_t bytes = space->graph->nodes[node].workspace;
    const size_t entry = find_entry(space, RP_NONE);
    if (entry == space->entry_count)
        return find_workspace(space, step, node);
    const int64_t offset = space->entries[entry].offset;
    if (!is_free(space, offset, bytes))
        return fail_entry(space, &space->entries[entry], "overlaps a value that is live");
    take(space, entry, bytes);
    rp_space_end(space, offset, bytes);
    return RP_OK;
}

rp_status rp_space_finish(const rp_space *space) {
    for (size_t i = 0; i < space->entry_count; i++)
        if (!space->used[i])
            return fail_entry(space, &space->entries[i], "does not begin there");
    return RP_OK;
}
