/* Dynamic programming over undominated pairs of bytes and gain. */
#include "knapsack.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FRONT = 1024 };

typedef struct rp_knapsack_point point;

static int compare_items(const void *left, const void *right) {
    const rp_item *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->gain != b->gain)
        return a->gain < b->gain ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

static bool are_equal(const rp_item *a, const rp_item *b) {
    return a->bytes == b->bytes && a->gain == b->gain;
}

/* Equal items become packs of 1, 2, 4, ... and the rest: any number of them is a sum of packs. */
static bool make_packs(rp_context *context, rp_knapsack *k) {
    for (size_t i = 0; i < k->item_count;) {
        size_t end = i + 1;
        while (end < k->item_count && are_equal(&k->items[i], &k->items[end]))
            end++;
        for (size_t size = 1; i < end; size *= 2) {
            const size_t count = size < end - i ? size : end - i;
            if (!rp_reserve(context, &k->packs, &k->pack_capacity, k->pack_count + 1,
                            sizeof *k->packs))
                return false;
            k->packs[k->pack_count++] = (struct rp_knapsack_pack){i, count};
            i += count;
        }
    }
    return true;
}

/* Appends a point to the front that begins at `front` unless it is dominated or too close to the
 * last one in bytes; points come with rising bytes. */
static void push_point(rp_knapsack *k, size_t front, const point *p, int64_t grain) {
    if (k->point_count > front) {
        point *last = &k->points[k->point_count - 1];
        if (p->gain <= last->gain)
            return;
        if (p->bytes == last->bytes ||
            (grain > 0 && p->bytes / grain == last->bytes / grain && k->point_count > front + 1)) {
            *last = *p;
            return;
        }
    }
    k->points[k->point_count++] = *p;
}

/* The next front: the old one, merged with itself plus the pack. */
static bool add_pack(rp_context *context, rp_knapsack *k, uint32_t pack, int64_t capacity,
                     int64_t grain) {
    const struct rp_knapsack_pack *p = &k->packs[pack];
    const rp_item *item = &k->items[p->first];
    int64_t bytes, gain;
    if (__builtin_mul_overflow(item->bytes, (int64_t)p->count, &bytes) || bytes > capacity ||
        __builtin_mul_overflow(item->gain, (int64_t)p->count, &gain))
        return true;
    const size_t begin = k->front, end = k->point_count;
    if (end + 2 * (end - begin) > RP_KNAPSACK_NONE ||
        !rp_reserve(context, &k->points, &k->point_capacity, end + 2 * (end - begin),
                    sizeof *k->points))
        return false;
    k->front = end;
    size_t plain = begin, taken = begin;
    while (plain < end || taken < end) {
        const point *a = plain < end ? &k->points[plain] : NULL;
        const point *b = taken < end ? &k->points[taken] : NULL;
        if (b != NULL && b->bytes > capacity - bytes) {
            taken = end;
        } else if (b == NULL || (a != NULL && a->bytes <= b->bytes + bytes)) {
            push_point(k, k->front, a, grain);
            plain++;
        } else {
            const point with = {b->bytes + bytes, b->gain + gain, (uint32_t)taken, pack};
            push_point(k, k->front, &with, grain);
            taken++;
        }
    }
    return true;
}

rp_status rp_knapsack_create(rp_context *context, const rp_item *items, size_t count,
                             int64_t capacity, rp_knapsack *k) {
    *k = (rp_knapsack){.items = rp_alloc(context, count, sizeof *k->items), .item_count = count};
    bool ok = k->items != NULL &&
              rp_reserve(context, &k->points, &k->point_capacity, 1, sizeof *k->points);
    if (ok) {
        if (count > 0)
            memcpy(k->items, items, count * sizeof *items);
        for (size_t i = 0; i < count; i++) /* so that no sum overflows */
            if (k->items[i].gain > INT64_MAX / (int64_t)count)
                k->items[i].gain = INT64_MAX / (int64_t)count;
        if (count > 0)
            qsort(k->items, count, sizeof *k->items, compare_items);
        k->points[k->point_count++] = (point){0, 0, RP_KNAPSACK_NONE, RP_KNAPSACK_NONE};
        ok = make_packs(context, k);
    }
    for (uint32_t pack = 0; ok && pack < k->pack_count; pack++)
        ok = add_pack(context, k, pack, capacity, capacity / MAX_FRONT);
    if (ok)
        return RP_OK;
    rp_knapsack_clear(context, k);
    return rp_fail_memory(context, "a choice of what to hold");
}

void rp_knapsack_clear(rp_context *context, rp_knapsack *knapsack) {
    rp_free(context, knapsack->items);
    rp_free(context, knapsack->packs);
    rp_free(context, knapsack->points);
    *knapsack = (rp_knapsack){0};
}

size_t rp_knapsack_take(const rp_knapsack *k, int64_t capacity, uint32_t *names) {
    size_t at = k->front, count = 0;
    for (size_t i = k->front; i < k->point_count && k->points[i].bytes <= capacity; i++)
        at = i;
    while (k->points[at].parent != RP_KNAPSACK_NONE) {
        const struct rp_knapsack_pack *pack = &k->packs[k->points[at].pack];
        for (size_t i = 0; i < pack->count; i++)
            names[count++] = k->items[pack->first + i].name;
        at = k->points[at].parent;
    }
    return count;
}
