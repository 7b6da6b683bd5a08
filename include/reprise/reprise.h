/* Reprise: train inside a byte budget, with the same bits of gradient.
 *
 *   context.h   memory, threads, the last message          status.h   what calls return
 *   tape.h ops.h tensor.h   record what a program computes
 *   program.h backend.h     differentiate it, for a device
 *   plan.h      choose what to keep and what to recompute, under a budget in bytes
 *   executor.h  run it, and update the parameters
 *   cost.h      costs of another device than the plain processor, modelled or measured
 *   graph.h     the planner alone, for a framework that has its own tensors
 *   extend.h    for strategies, ops and backends: unstable
 *
 * Objects belong to a context, which destroys what is left of them with itself. Those that are
 * destroyed alone go before what they were made from: executor, plan, program, tape.
 *
 * Every call documents its statuses; all share this: RP_OUT_OF_MEMORY wherever memory is taken.
 * NULL is never a crash: destroying it does nothing, making something of it and acting on it are
 * RP_INVALID_ARGUMENT, recording on it gives the tensor 0, and asking it, or for an index behind
 * the last, gives what is empty: 0, NULL, "", a cleared struct.
 */
#ifndef REPRISE_REPRISE_H
#define REPRISE_REPRISE_H

#include "backend.h"
#include "context.h"
#include "cost.h"
#include "executor.h"
#include "graph.h"
#include "ops.h"
#include "plan.h"
#include "program.h"
#include "status.h"
#include "tape.h"
#include "tensor.h"

#endif
