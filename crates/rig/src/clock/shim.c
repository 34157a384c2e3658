/* Stands between a program and the clocks of the C library, so that the lab can set the program's clocks and nobody else's.
 *
 * The program maps the file that FENCEPOST_CLOCK names. The lab writes to it while the program runs. Every answer comes from the kernel,
 * by a system call, and then the file says what to add. Nothing here allocates, locks or looks up a symbol: an allocator may ask for the
 * time before it works itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define TRIES_MAX 1000000

/* clock.rs knows where each field is. */
struct page {
    _Atomic uint64_t calls;    /* how many calls were answered */
    _Atomic uint64_t version;  /* odd while the lab writes */
    _Atomic int64_t wall_ns;   /* what to add to the time of day */
    _Atomic int64_t fast;      /* how much faster the time of day runs, in thousandths, */
    _Atomic int64_t since_ns;  /* since this time of the boot clock */
    _Atomic int64_t steady_ns; /* what to add to the clock that stands still while the machine is suspended */
};

static struct page *_Atomic shared;
static _Atomic int looked;

static long ask(clockid_t clock, struct timespec *time) {
    return syscall(SYS_clock_gettime, clock, time);
}

static struct page *page(void) {
    if (!looked) {
        const char *path = getenv("FENCEPOST_CLOCK");
        int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        if (file >= 0) {
            void *mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            if (mapped != MAP_FAILED) shared = mapped;
            close(file);
        }
        looked = 1;
    }
    return shared;
}

static int64_t nanoseconds(struct timespec time) { return time.tv_sec * SECOND + time.tv_nsec; }

/* What to add to the time of day. If the lab is stopped while it writes, this gives up after a while and takes what is there. */
static int64_t wall(const struct page *page) {
    for (int tries = 0;; tries++) {
        uint64_t before = page->version;
        int64_t shift = page->wall_ns, fast = page->fast, since = page->since_ns;
        if ((before % 2 == 0 && before == page->version) || tries == TRIES_MAX) {
            struct timespec boot;
            if (fast && !ask(CLOCK_BOOTTIME, &boot)) shift += (nanoseconds(boot) - since) / 1000 * fast;
            return shift;
        }
    }
}

static void add(struct timespec *time, int64_t more) {
    int64_t all = nanoseconds(*time) + more;
    time->tv_sec = all / SECOND;
    time->tv_nsec = all % SECOND;
    if (time->tv_nsec < 0) {
        time->tv_nsec += SECOND;
        time->tv_sec -= 1;
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int before = errno;
    if (ask(clock, time)) return -1;
    struct page *mapped = page();
    errno = before;
    if (!mapped) return 0;
    mapped->calls++;
    switch (clock) {
        case CLOCK_REALTIME:
        case CLOCK_REALTIME_COARSE:
            add(time, wall(mapped));
            break;
        case CLOCK_MONOTONIC:
        case CLOCK_MONOTONIC_RAW:
        case CLOCK_MONOTONIC_COARSE:
            add(time, mapped->steady_ns);
            break;
        default:
            break;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    if (zone) *(struct timezone *)zone = (struct timezone){0, 0};
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    /* Programs pass NULL, too. The header rules that out, so a compiler would drop a plain check. */
    struct timeval *volatile out = time;
    if (out) *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *time, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, time) ? base : 0;
}
