/* Known chains of native frames, for the unwinder to find. Prints the addresses of its functions, then spins.
   Built without frame pointers. Each mode is one way in which frames differ. */
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/time.h>

#define KEEP __attribute__((noinline, noclone))

static volatile unsigned long sink;
static volatile int forever = 1;

KEEP void spin(void) {
    while (forever)
        sink++;
}

/* A frame of fixed size, found from the stack pointer. */
KEEP void fixed(void (*next)(void)) {
    volatile char space[200];
    space[0] = 1;
    next();
    sink += space[0];
}

/* A frame of variable size, found from a frame pointer. */
KEEP void variable(unsigned long size, void (*next)(void)) {
    char *space = alloca(size);
    memset(space, 1, size);
    fixed(next);
    sink += space[size / 2];
}

/* A realigned frame, found through a saved copy of the frame address. */
KEEP void realigned(unsigned long size, void (*next)(void)) {
    volatile char space[128] __attribute__((aligned(64)));
    char *more = alloca(size);
    memset(more, 1, size);
    space[0] = 1;
    variable(size, next);
    sink += space[0] + more[size / 2];
}

/* Spins inside of a signal handler, which interrupts `spin`. */
KEEP void handler(int number) {
    (void)number;
    fixed(spin);
}

KEEP int recurse(int depth) {
    volatile char space[64];
    space[0] = (char)depth;
    if (depth == 0)
        fixed(spin);
    else
        recurse(depth - 1);
    return space[0];
}

/* Where the main thread begins; named so that it is not taken for the end of `main`. */
extern void _start(void);

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "plain";
    printf("spin %p\nfixed %p\nvariable %p\nrealigned %p\nhandler %p\nrecurse %p\nmain %p\n_start %p\nready\n", (void *)spin, (void *)fixed,
           (void *)variable, (void *)realigned, (void *)handler, (void *)recurse, (void *)main, (void *)_start);
    fflush(stdout);
    if (!strcmp(mode, "signal")) {
        signal(SIGALRM, handler);
        struct itimerval soon = {{0, 0}, {0, 50000}};
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    if (!strcmp(mode, "deep"))
        recurse(2000);
    else
        realigned((unsigned long)argc * 100, spin);
    return 0;
}
