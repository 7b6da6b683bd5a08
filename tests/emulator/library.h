/* Which library of the CUDA backend a program of this folder runs on. */
#ifndef REPRISE_EMULATOR_LIBRARY_H
#define REPRISE_EMULATOR_LIBRARY_H

/* The emulator's, unless the environment names one. */
void library_use(void);

#endif
