/* A schedule under construction. */
#include "schedule.h"

bool rp_schedule_append(rp_context *context, rp_schedule *schedule, rp_step_kind kind,
                        uint32_t index) {
    if (!rp_reserve(context, &schedule->steps, &schedule->capacity, schedule->count + 1,
                    sizeof *schedule->steps))
        return false;
    schedule->steps[schedule->count++] = (rp_step){.kind = kind, .index = index};
    return true;
}

void rp_schedule_clear(rp_context *context, rp_schedule *schedule) {
    rp_free(context, schedule->steps);
    *schedule = (rp_schedule){NULL, 0, 0};
}
