/* Running the grid of a kernel: threads of a block as fibers, one block after the other. */
#ifndef REPRISE_EMULATOR_GRID_H
#define REPRISE_EMULATOR_GRID_H

#include "engine.h"

/* The most shared memory that a kernel can ask for: what sm_90 has. */
#define EMULATOR_MOST_SHARED 232448

void emulator_grid_run(const emulator_launch *launch, const void *arguments);

#endif
