/* A schedule under construction: a growing list of steps. */
#ifndef REPRISE_PLANNER_SCHEDULE_H
#define REPRISE_PLANNER_SCHEDULE_H

#include <reprise/extend.h>
#include <reprise/plan.h>

typedef struct rp_schedule {
    rp_step *steps;
    size_t count, capacity;
} rp_schedule;

/* False when memory is short; the schedule is then as it was. */
bool rp_schedule_append(rp_context *context, rp_schedule *schedule, rp_step_kind kind,
                        uint32_t index);

/* Frees the steps; the struct can be used again. */
void rp_schedule_clear(rp_context *context, rp_schedule *schedule);

#endif
