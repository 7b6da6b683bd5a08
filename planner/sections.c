/* Sections of time. */
#include "sections.h"

/* Which ticks are sections, as a count of those before each tick. */
static bool find_sections(rp_context *context, const rp_lifetimes *l, uint32_t *before) {
    uint8_t *events = rp_alloc(context, (size_t)l->ticks + 1, 1); /* 1: begins, 2: has ended */
    if (events == NULL)
        return false;
    for (size_t i = 0; i < l->piece_count; i++) {
        events[l->pieces[i].begin] |= 1;
        events[l->pieces[i].end] |= 2;
    }
    bool grown = false;
    uint32_t count = 0;
    for (uint32_t t = 0; t < l->ticks; t++) {
        before[t] = count;
        grown = grown || (events[t] & 1) != 0;
        if (grown && (t + 1 == l->ticks || (events[t + 1] & 2) != 0)) {
            count++;
            grown = false;
        }
    }
    before[l->ticks] = count;
    rp_free(context, events);
    return true;
}

bool rp_sections_create(rp_context *context, const rp_lifetimes *l, rp_sections *sections) {
    uint32_t *before = rp_alloc(context, (size_t)l->ticks + 1, sizeof *before);
    *sections = (rp_sections){.blocks = rp_alloc(context, l->block_count, sizeof(rp_span)),
                              .pieces = rp_alloc(context, l->piece_count, sizeof(rp_span))};
    if (before == NULL || sections->blocks == NULL || sections->pieces == NULL ||
        !find_sections(context, l, before)) {
        rp_free(context, before);
        rp_sections_clear(context, sections);
        return false;
    }
    for (size_t i = 0; i < l->block_count; i++)
        sections->blocks[i] = (rp_span){before[l->blocks[i].begin], before[l->blocks[i].end], 0};
    for (size_t i = 0; i < l->piece_count; i++)
        sections->pieces[i] =
            (rp_span){before[l->pieces[i].begin], before[l->pieces[i].end], l->pieces[i].bytes};
    sections->count = before[l->ticks];
    rp_free(context, before);
    return true;
}

void rp_sections_clear(rp_context *context, rp_sections *sections) {
    rp_free(context, sections->blocks);
    rp_free(context, sections->pieces);
    *sections = (rp_sections){.count = 0};
}
