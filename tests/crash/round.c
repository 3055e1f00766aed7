/* SPDX-License-Identifier: BSD-2-Clause */
/* See round.h. */
#include "round.h"

#include "disk.h"
#include "support/fixtures.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum life_kind {
    LIFE_VERIFY,  /* inspects the files as they are */
    LIFE_WORK,    /* opens, checks, works, and ends in some way */
    LIFE_RECOVER, /* opens, and waits until instant recovery has finished */
    LIFE_PROBE,   /* opens, checks, works a little, closes, opens and checks again */
    LIFE_LAST     /* like LIFE_PROBE, and releases everything that keeps log */
};

struct life {
    enum life_kind kind;
    bool instant, atomic, closes;
    uint64_t die_in_open, die_in_work, die_in_close; /* the number of the call at which the process
                                                      * dies; 0: it does not die */
    enum death how;
    uint64_t kill_ns; /* after this time the conductor kills the process; 0: it does not */
};

struct round {
    const struct settings *settings;
    struct tally *tally;
    struct plan plan;
    struct oracle *oracle;
    uint64_t rng;
    struct disk *disk; /* NULL: no power failures */
    char *base, *dir, *trace;
    unsigned life, dirs;
    bool dirty; /* the next open has something to recover */
    bool tears; /* atomic pages are off, and were off when each pending write was made */
    struct failure *failure;
};

static uint64_t below(struct round *r, uint64_t n)
{
    return seeded_next(&r->rng) % n;
}

static void give_up(const char *what)
{
    (void)fprintf(stderr, "crash test: %s: %s\n", what, strerror(errno));
    exit(3);
}

static bool failed(struct round *r, const char *kind, const char *message)
{
    (void)snprintf(r->failure->kind, sizeof r->failure->kind, "%s", kind);
    (void)snprintf(r->failure->message, sizeof r->failure->message, "%s", message);
    return false;
}

/* ---- a life, in its own process
 * --------------------------------------------------------------- */

static void reopen_and_check(struct session *s, const struct life *l)
{
    atomic_store(&s->oracle->stage, STAGE_CLOSING);
    check_files(s->oracle, s->dir, session_close(s));
    session_open(s, l->instant, l->atomic);
    session_find(s);
}

static void rest_of_life(struct session *s, const struct life *l)
{
    check(s);
    if (l->kind == LIFE_WORK) {
        crash_device_arm(s->device, l->die_in_work, l->how);
        atomic_store(&s->oracle->stage, STAGE_WORKING);
        work(s);
        if (!l->closes)
            return;
        crash_device_arm(s->device, l->die_in_close, l->how);
    } else {
        for (unsigned w = 0; w < WORKERS; w++)
            (void)work_one(s, w);
        reopen_and_check(s, l);
        check(s);
        if (l->kind == LIFE_LAST) {
            work_relieve(s);
            reopen_and_check(s, l);
        }
    }
    atomic_store(&s->oracle->stage, STAGE_CLOSING);
    bool clean = session_close(s);
    check_files(s->oracle, s->dir, clean);
    if (clean)
        atomic_store(&s->oracle->stage, STAGE_DONE);
}

static void live(const struct round *r, const struct life *l)
{
    struct session s = {.plan = &r->plan, .oracle = r->oracle, .dir = r->dir, .life = r->life};
    if (l->kind == LIFE_VERIFY) {
        check_files(r->oracle, r->dir, !r->dirty);
        _exit(0);
    }
    struct crash_device_config config = {.dir = r->dir,
                                         .trace = -1,
                                         .piece = l->atomic ? r->plan.o.page_size : 4096,
                                         .serial = r->plan.features & WITH_FULL,
                                         .capacity = atomic_load(&r->oracle->capacity),
                                         .calls = &r->oracle->calls,
                                         .killed = &r->oracle->killed};
    if (r->disk)
        config.trace = open(r->trace, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    s.device = crash_device_new(&config);
    if (!s.device)
        fail(r->oracle, "test", "no device");
    if (r->dirty && r->life % 2 && l->kind != LIFE_RECOVER)
        check_files(r->oracle, r->dir, false);
    crash_device_arm(s.device, l->die_in_open, l->how);
    session_open(&s, l->instant, l->atomic);
    if (l->kind == LIFE_RECOVER) {
        session_catch_up(&s);
        crash_device_stop(s.device);
        _exit(0);
    }
    crash_device_arm(s.device, 0, l->how);
    session_find(&s);
    rest_of_life(&s, l);
    crash_device_stop(s.device);
    _exit(0);
}

/* ---- a life, in the conductor ---------------------------------------------------------------- */

/* Waits until the process ends. Kills it at the chosen time, or if it hangs. */
static bool await(struct round *r, const struct life *l, pid_t pid, int ends, int *status)
{
    uint64_t ns = l->kill_ns ? l->kill_ns : r->settings->hang_ns;
    struct timespec limit = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    struct pollfd p = {.fd = ends, .events = POLLIN};
    int n = ppoll(&p, 1, &limit, NULL);
    if (n == 0)
        (void)kill(pid, SIGKILL);
    (void)close(ends);
    if (waitpid(pid, status, 0) != pid)
        give_up("waitpid");
    return n != 0 || l->kill_ns;
}

static void count_kill(struct round *r)
{
    uint32_t stage = atomic_load(&r->oracle->stage);
    struct tally *t = r->tally;
    t->kills++;
    bool pending = stage == STAGE_PENDING && atomic_load(&r->oracle->pending);
    bool inside = stage == STAGE_OPENING || pending;
    if (!inside || !r->dirty)
        return;
    t->kills_in_recovery++;
    for (unsigned i = 0; i < FEATURES; i++)
        t->by_feature[i] += r->plan.features >> i & 1;
}

static void replay_trace(struct round *r)
{
    int fd = open(r->trace, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        give_up(r->trace);
    void *bytes = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (bytes == MAP_FAILED)
        give_up(r->trace);
    disk_replay(r->disk, bytes, (size_t)st.st_size);
    if (bytes)
        (void)munmap(bytes, (size_t)st.st_size);
    (void)close(fd);
}

static bool run_life(struct round *r, const struct life *l)
{
    static const char *const stages[] = {"open", "redo", "check", "work", "close", "end"};
    int ends[2], status;
    char text[128];
    r->life++;
    r->tally->lives++;
    atomic_store(&r->oracle->stage, STAGE_OPENING);
    atomic_store(&r->oracle->killed, 0);
    if (pipe(ends) != 0)
        give_up("pipe");
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid == 0) {
        (void)close(ends[0]);
        live(r, l);
    }
    (void)close(ends[1]);
    bool ended = await(r, l, pid, ends[0], &status);
    uint32_t stage = atomic_load(&r->oracle->stage);
    if (r->settings->verbose)
        printf("  life %u, kind %u: %s%s, %s at call %llu of %llu, stage %s\n", r->life, l->kind,
               l->instant ? "instant" : "full", l->atomic ? ", atomic" : "",
               WIFSIGNALED(status) ? "killed" : "ended",
               (unsigned long long)atomic_load(&r->oracle->calls),
               (unsigned long long)atomic_load(&r->oracle->open_calls), stages[stage]);
    if (!ended) {
        (void)snprintf(text, sizeof text, "it hung (stage: %s)", stages[stage]);
        return failed(r, "hang", text);
    }
    if (atomic_load(&r->oracle->failed))
        return failed(r, r->oracle->kind, r->oracle->message);
    bool planned = atomic_load(&r->oracle->killed) || l->kill_ns;
    if (WIFSIGNALED(status) && !(planned && WTERMSIG(status) == SIGKILL)) {
        (void)snprintf(text, sizeof text, "stage: %s", stages[stage]);
        char kind[32];
        (void)snprintf(kind, sizeof kind, "died by signal %d", WTERMSIG(status));
        return failed(r, kind, text);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return failed(r, "ended by itself", stages[stage]);
    if (WIFSIGNALED(status))
        count_kill(r);
    if (stage != STAGE_OPENING)
        r->tally->opens++;
    r->dirty = stage != STAGE_DONE;
    if (r->disk)
        replay_trace(r);
    return true;
}

/* ---- power ----------------------------------------------------------------------------------- */

static char *new_dir(struct round *r)
{
    char *dir;
    if (asprintf(&dir, "%s/db%u", r->base, r->dirs++) < 0)
        give_up("path");
    return dir;
}

static struct fault_crash draw_crash(struct round *r)
{
    struct fault_crash how = {FAULT_SHARE, seeded_next(&r->rng), r->tears};
    uint64_t which = below(r, 6), pending = disk_pending(r->disk);
    if (which == 0) {
        how.mode = FAULT_POWER;
    } else if (which == 1) {
        how.mode = FAULT_PREFIX;
        how.seed %= pending + 1;
    } else if (which == 2) {
        how.mode = FAULT_SUBSET;
    }
    return how;
}

/* The capacity must not be less than the size of the existing files. */
static void fit_capacity(struct round *r)
{
    uint64_t used = crash_device_used(r->dir);
    if (atomic_load(&r->oracle->capacity) < used)
        atomic_store(&r->oracle->capacity, used);
}

/* Checks another state that the power failure might have left, and discards it. */
static bool probe(struct round *r)
{
    struct fault_crash how = draw_crash(r);
    struct oracle before = *r->oracle;
    struct disk *disk = r->disk;
    char *dir = r->dir, *elsewhere = new_dir(r);
    struct life l = {.kind = LIFE_PROBE};
    l.instant = (r->plan.features & WITH_INSTANT) && below(r, 2);
    l.atomic = (r->plan.features & WITH_ATOMIC) && !r->tears;
    disk_power(disk, &how, elsewhere, NULL);
    r->tally->power_states++;
    r->disk = NULL;
    r->dir = elsewhere;
    fit_capacity(r);
    bool dirty = r->dirty;
    if (!run_life(r, &l))
        return false; /* r->dir is the directory of that state, for `keep` */
    r->dirty = dirty;
    memcpy(r->oracle, &before, sizeof before);
    r->disk = disk;
    r->dir = dir;
    temp_dir_remove(elsewhere);
    return true;
}

static void power_fails(struct round *r)
{
    struct fault_crash how = draw_crash(r);
    struct disk *after;
    char *dir = new_dir(r);
    disk_power(r->disk, &how, dir, &after);
    r->tally->power_states++;
    disk_free(r->disk);
    temp_dir_remove(r->dir);
    r->disk = after;
    r->dir = dir;
    r->dirty = true;
    fit_capacity(r);
}

/* ---- a round --------------------------------------------------------------------------------- */

static void draw_end(struct round *r, struct life *l)
{
    bool power = r->disk && below(r, 2);
    l->how = power ? DEATH_POWER : (enum death)below(r, 3);
    l->instant = (r->plan.features & WITH_INSTANT) && below(r, 2);
    l->atomic = r->plan.features & WITH_ATOMIC;
    if ((r->plan.features & WITH_SWITCH) && below(r, 2))
        l->atomic = false;
    /* A pending write that was made on a device that does not tear pages must not be torn later. */
    bool settled = !r->disk || disk_pending(r->disk) == 0;
    r->tears = !l->atomic && (r->tears || settled);
}

/* Draws the number of a call within the next open, which makes about as many calls as the last
 * open. */
static uint64_t draw_call(struct round *r)
{
    uint64_t last = atomic_load(&r->oracle->open_calls);
    uint64_t most = last > 8 ? last + last / 4 : 40;
    return 1 + below(r, below(r, 4) ? most : 4 * most);
}

/* Kills from outside come only in rounds without a trace, because a process that is killed from
 * outside may leave half an entry of the trace. */
static bool timed(const struct round *r)
{
    return (r->plan.features & WITH_TIME) && !r->disk;
}

static bool crash_recoveries(struct round *r)
{
    for (uint64_t n = below(r, 5); n > 0; n--) {
        struct life l = {.kind = LIFE_RECOVER};
        draw_end(r, &l);
        if (timed(r) && below(r, 2))
            l.kill_ns = 1 + below(r, 2 * atomic_load(&r->oracle->open_ns) + 1000000);
        else
            l.die_in_open = draw_call(r);
        if (!run_life(r, &l))
            return false;
        if (l.how != DEATH_POWER || !r->disk)
            continue;
        if (below(r, 2) && !probe(r))
            return false;
        power_fails(r);
    }
    return true;
}

static bool cycle(struct round *r)
{
    struct life l = {.kind = LIFE_WORK};
    draw_end(r, &l);
    l.closes = below(r, 4) == 0;
    switch (below(r, 5)) {
    case 0: /* killed in the open */
        l.die_in_open = draw_call(r);
        break;
    case 1:
        l.die_in_close = l.closes ? 1 + below(r, 64) : 0;
        break;
    case 2:
    case 3:
        l.die_in_work = 1 + below(r, 1u << below(r, 12));
        break;
    default: /* works until it ends */
        break;
    }
    if (timed(r) && below(r, 2))
        l.kill_ns = 1 + below(r, 1u << 25);
    if (!run_life(r, &l))
        return false;
    if (r->disk && (l.how == DEATH_POWER || below(r, 4) == 0)) {
        if (!probe(r))
            return false;
        power_fails(r);
    }
    if (!crash_recoveries(r))
        return false;
    if (below(r, 2))
        atomic_store(&r->oracle->capacity, UINT64_MAX); /* the disk has room again */
    return true;
}

static bool last_life(struct round *r)
{
    struct life last = {.kind = LIFE_LAST};
    draw_end(r, &last);
    atomic_store(&r->oracle->capacity, UINT64_MAX);
    return run_life(r, &last);
}

static bool cycles(struct round *r)
{
    for (unsigned i = 0; i < r->plan.cycles; i++) {
        if (!cycle(r))
            return false;
    }
    return last_life(r);
}

static bool whole(struct round *r)
{
    r->base = temp_dir_new();
    r->dir = new_dir(r);
    r->trace = temp_dir_path(r->base, "trace");
    r->disk = r->plan.features & WITH_POWER ? disk_new() : NULL;
    bool good = cycles(r), keep = !good && r->settings->keep;
    if (keep)
        r->failure->dir = strdup(r->dir);
    disk_free(r->disk);
    free(r->dir);
    free(r->trace);
    if (keep)
        free(r->base);
    else
        temp_dir_remove(r->base);
    return good;
}

/* Runs one leg of a round. Several machines run the legs by turns. First verifies what the previous
 * leg has left. */
static bool leg(struct round *r)
{
    uint64_t conductor[2] = {0};
    char *known;
    if (asprintf(&known, "%s/known", r->settings->relay) < 0 ||
        asprintf(&r->dir, "%s/db", r->settings->relay) < 0)
        give_up("path");
    bool begun = oracle_load(r->oracle, conductor, known), good = true;
    if (!begun && errno != ENOENT)
        give_up(known);
    r->life = (unsigned)conductor[0];
    r->dirty = conductor[1];
    r->rng = mix(r->plan.seed, 'c', r->life, 0);
    if (begun) {
        struct life look = {.kind = LIFE_VERIFY};
        good = run_life(r, &look);
        r->dirty = conductor[1];
    }
    good = good && (r->settings->leg == LEG_LAST ? last_life(r) : cycle(r));
    conductor[0] = r->life;
    conductor[1] = r->dirty;
    if (!oracle_save(r->oracle, conductor, known))
        give_up(known);
    free(known);
    free(r->dir);
    return good;
}

bool round_run(uint64_t seed, const struct settings *settings, struct tally *tally,
               struct failure *failure)
{
    struct round r = {
        .settings = settings, .tally = tally, .rng = mix(seed, 'c', 0, 0), .failure = failure};
    memset(failure, 0, sizeof *failure);
    plan_draw(&r.plan, seed, settings->features);
    if (settings->verbose)
        plan_print(&r.plan, stdout);
    r.oracle =
        mmap(NULL, sizeof *r.oracle, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.oracle == MAP_FAILED)
        give_up("memory");
    atomic_store(&r.oracle->capacity, UINT64_MAX);
    bool good = settings->leg == LEG_WHOLE ? whole(&r) : leg(&r);
    tally->rounds++;
    tally->refused += atomic_load(&r.oracle->refused);
    (void)munmap(r.oracle, sizeof *r.oracle);
    return good;
}
