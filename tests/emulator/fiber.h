/* Stacks that take turns on one thread of the process. */
#ifndef REPRISE_EMULATOR_FIBER_H
#define REPRISE_EMULATOR_FIBER_H

#include <stddef.h>

typedef struct emulator_fiber {
    void *stack_pointer; /* where it stands while others run */
    char *bottom;        /* of its stack; a guard page lies below */
    size_t bytes;
} emulator_fiber;

/* A fiber that begins in `entry`, which never returns. It is never freed: it is used again. */
emulator_fiber *emulator_fiber_create(size_t bytes, void (*entry)(void));

/* The stack that the process runs on now, as a fiber to come back to. */
void emulator_fiber_adopt(emulator_fiber *fiber);

/* Goes on with `to`; returns when somebody switches to `from`. */
void emulator_fiber_switch(emulator_fiber *from, emulator_fiber *to);

/* The first thing that an entry calls. */
void emulator_fiber_entered(void);

#endif
