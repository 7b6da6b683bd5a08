/* Fibers: the switch saves what a call must keep, by the ABI of the processor. */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "fiber.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "sanitizer.h"
#include "settings.h"

#ifndef __x86_64__
#error "the emulator's switch of stacks is written for x86-64"
#endif

/* Six registers and the address to return to; floating-point modes are the same for all. */
void emulator_stack_switch(void **save, void *to);
__asm__(".text\n"
        ".hidden emulator_stack_switch\n"
        ".globl emulator_stack_switch\n"
        ".type emulator_stack_switch, @function\n"
        "emulator_stack_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size emulator_stack_switch, . - emulator_stack_switch\n");

emulator_fiber *emulator_fiber_create(size_t bytes, void (*entry)(void)) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    emulator_fiber *fiber = emulator_take(sizeof *fiber);
    bytes = (bytes + page - 1) / page * page;
    char *block = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED || mprotect(block, page, PROT_NONE) != 0)
        emulator_fail("no memory for a stack of %zu bytes", bytes);
    fiber->bottom = block + page;
    fiber->bytes = bytes;
    /* The entry is "called": an address to return to, 16-byte aligned behind it. */
    void **top = (void **)(void *)(fiber->bottom + bytes);
    *--top = NULL;
    *--top = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    fiber->stack_pointer = top;
    return fiber;
}

/* Asked once a thread: the answer comes from a file of the system. */
void emulator_fiber_adopt(emulator_fiber *fiber) {
    static _Thread_local void *bottom;
    static _Thread_local size_t bytes;
    pthread_attr_t attributes;
    if (bytes == 0 && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &bottom, &bytes);
        pthread_attr_destroy(&attributes);
    }
    *fiber = (emulator_fiber){NULL, bottom, bytes};
}

void emulator_fiber_switch(emulator_fiber *from, emulator_fiber *to) {
    void *fake_stack = NULL;
    if (from == to)
        return;
    emulator_counts.switches++;
    __sanitizer_start_switch_fiber(&fake_stack, to->bottom, to->bytes);
    emulator_stack_switch(&from->stack_pointer, to->stack_pointer);
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
}

void emulator_fiber_entered(void) {
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
}
