// The native half of the sample: calls in both directions on threads of its own, and, where it is preloaded, what other
// tools do to a process: a SIGPROF handler, a wall clock that jumps, and a filter of system calls that comes late.
//
//   HARM_EXE      base name of the executable in which the preloaded part is active; elsewhere it does nothing
//   HARM_SIGPROF  a file: as soon as it exists, a SIGPROF handler is installed and ITIMER_PROF is started. The number of
//                 its ticks is written to <file>.ticks
//   HARM_SECCOMP  a file: as soon as it exists, all threads get a filter that ends the process for system calls by which
//                 a debugger or a profiler reads memory or counts events
//   HARM_CLOCK    if set, CLOCK_REALTIME jumps an hour forth and back, each 200 ms
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*callback)(int);

int harm_add(int a, int b) { return a + b; }

int harm_call(callback call, int value) { return call(value) + 1; }

struct job {
    callback call;
    int value;
    int result;
    int heap_stack;
};

static void *work(void *argument) {
    struct job *job = argument;
    void *stack = NULL;
    if (job->heap_stack) {
        // As threads of Go and Rust have: from the heap, and freed by whoever made it.
        stack_t alternate = {.ss_sp = stack = malloc(65536), .ss_size = 65536};
        if (stack == NULL || sigaltstack(&alternate, NULL) != 0) {
            job->result = -1;
            return NULL;
        }
        memset(stack, 0x5a, 65536);
    }
    for (int i = 0; i < 20; i++) {
        job->result += job->call(job->value + i);
        usleep(500);
    }
    if (stack != NULL) {
        stack_t none = {.ss_flags = SS_DISABLE};
        sigaltstack(&none, NULL);
        free(stack);
    }
    return NULL;
}

// Calls back from `count` new threads at the same time; gives the sum of what they got, or a negative number.
int harm_on_threads(callback call, int count, int heap_stack) {
    pthread_t threads[64];
    struct job jobs[64];
    int started = 0, sum = 0;
    for (; started < count && started < 64; started++) {
        jobs[started] = (struct job){.call = call, .value = started, .heap_stack = heap_stack};
        if (pthread_create(&threads[started], NULL, work, &jobs[started]) != 0) {
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        sum += jobs[i].result;
    }
    return started == count ? sum : -1000000;
}

// A child that is a copy of this process and ends at once; gives its exit code.
int harm_fork(int code) {
    pid_t child = fork();
    if (child == 0) {
        _exit(code);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A child that shares this process's memory until it runs another program.
int harm_vfork_exec(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *gate;
static const char *filter_gate;
static volatile long ticks;
static volatile int clock_jumps;

static void tick(int signal) {
    (void)signal;
    __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
}

static void *watch(void *argument) {
    (void)argument;
    char path[4096], text[32];
    snprintf(path, sizeof path, "%s.ticks", gate);
    while (access(gate, F_OK) != 0) {
        usleep(5000);
    }
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval each = {.it_interval = {.tv_usec = 10000}, .it_value = {.tv_usec = 10000}};
    setitimer(ITIMER_PROF, &each, NULL);
    for (;;) {
        int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        int length = snprintf(text, sizeof text, "%ld\n", ticks);
        if (file >= 0) {
            if (write(file, text, (size_t)length) != length) {
                ticks = -1;
            }
            close(file);
        }
        usleep(50000);
    }
    return NULL;
}

#define KILL_FOR(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static void *forbid(void *argument) {
    (void)argument;
    while (access(filter_gate, F_OK) != 0) {
        usleep(5000);
    }
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), // the number of the system call
        KILL_FOR(SYS_process_vm_readv),
        KILL_FOR(SYS_process_vm_writev),
        KILL_FOR(SYS_ptrace),
        KILL_FOR(SYS_perf_event_open),
        KILL_FOR(SYS_bpf),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
        // Whoever set the gate sees in /proc whether it worked.
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    }
    return NULL;
}

static void start(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) == 0) {
        pthread_detach(thread);
    }
}

__attribute__((constructor)) static void preloaded(void) {
    char self[4096];
    const char *wanted = getenv("HARM_EXE");
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (wanted == NULL || length <= 0) {
        return;
    }
    self[length] = 0;
    const char *base = strrchr(self, '/');
    if (strcmp(base == NULL ? self : base + 1, wanted) != 0) {
        return;
    }
    clock_jumps = getenv("HARM_CLOCK") != NULL;
    gate = getenv("HARM_SIGPROF");
    if (gate != NULL) {
        start(watch);
    }
    filter_gate = getenv("HARM_SECCOMP");
    if (filter_gate != NULL) {
        start(forbid);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock_jumps && clock == CLOCK_REALTIME && time->tv_nsec / 200000000 % 2 == 1) {
        time->tv_sec += 3600;
    }
    return (int)result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}
