/* Reprise: train inside a byte budget, with the same bits of gradient.
 *
 *   context.h   memory, threads, the last message          status.h   what calls return
 *   tape.h ops.h tensor.h   record what a program computes
 *   program.h   differentiate it
 *   plan.h      choose what to keep and what to recompute, under a budget in bytes
 *   executor.h  run it, and update the parameters
 *   graph.h     the planner alone, for a framework that has its own tensors
 *   extend.h    for strategies, ops and backends: unstable
 *
 * Objects belong to a context and are destroyed before what they were made from: executor, plan,
 * program, tape, context. Every call documents its statuses; all share this: RP_OUT_OF_MEMORY
 * wherever memory is taken, and RP_INVALID_ARGUMENT for a NULL that is not allowed.
 */
#ifndef REPRISE_REPRISE_H
#define REPRISE_REPRISE_H

#include "context.h"
#include "executor.h"
#include "graph.h"
#include "ops.h"
#include "plan.h"
#include "program.h"
#include "status.h"
#include "tape.h"
#include "tensor.h"

#endif
