/* Says what touched an address that nobody may: a thread of a kernel, or the host in memory of the
 * device. Sanitizers have handlers of their own, and know more. */
#define _GNU_SOURCE /* sigaltstack */
#include <signal.h>
#include <string.h>

#include "block.h"
#include "runtime.h"
#include "settings.h"

/* A fiber that ran beyond its stack has none left for the handler. */
static char handler_stack[65536];

static void on_fault(int number, siginfo_t *info, void *context) {
    char who[EMULATOR_WHO];
    (void)number;
    (void)context;
    if (emulator_this_block.launch != NULL)
        emulator_fail("%s: touched %p, where there is nothing%s", emulator_who(who), info->si_addr,
                      emulator_is_device(info->si_addr, 0)
                          ? ""
                          : ", or a stack of RP_EMULATOR_STACK bytes is too small");
    if (emulator_is_device(info->si_addr, 0))
        emulator_fail("host code touched %p, memory of the device", info->si_addr);
    signal(number, SIG_DFL); /* not ours: happens again, as it would have */
}

void emulator_trap_install(void) {
    static bool is_installed;
    struct sigaction action, before;
    if (is_installed)
        return;
    is_installed = true;
    if (sigaction(SIGSEGV, NULL, &before) != 0 || before.sa_handler != SIG_DFL)
        return;
    const stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (sigaltstack(&stack, NULL) == 0)
        sigaction(SIGSEGV, &action, NULL);
}
