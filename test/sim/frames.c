/* sim/frames.c - keeps messages of schedules as files. */
#include "sim/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/hash.h"
#include "wire/frame.h"

enum {
    FILES_MAX = 500,       /* in all; of them */
    TALKS_MAX = 40,        /* and of a route */
    ROUTE_TALKS_MAX = 10,  /* are talks */
    FRAME_MAX = 16 << 10,  /* bytes of a message that is kept */
    TALK_MAX = 12 << 10,   /* and of a talk: what comes after is left out */
    RECEIVERS = 4,         /* which of the first ones is followed depends on the seed */
    FOLDER_MAX = 3 << 10,  /* bytes of names */
    PATH_MAX_BYTES = 4096, /* the same */
    PORT_MARK = 0x80,
    PORTS = 0x80,
};

_Static_assert(TALKS_MAX >= ROUTE_TALKS_MAX * RBT_INSPECT_ROUTES, "talks of all routes fit");

/* What one receiver has heard in this schedule. */
struct talk {
    const void *receivers[RECEIVERS]; /* that were seen, in order */
    uint32_t receiver_count;
    uint32_t port; /* of the last message, or PORTS */
    bool is_full;
    size_t bytes;
    char text[TALK_MAX];
};

static char root[FOLDER_MAX]; /* "": nobody wants files */
static uint64_t kept[FILES_MAX];
static uint32_t kept_count;
static uint32_t talk_counts[RBT_INSPECT_ROUTES];
static struct talk talks[RBT_INSPECT_ROUTES];
static uint32_t followed; /* which receiver of each route is */

static const char *const folders[RBT_INSPECT_ROUTES] = {
    [RBT_INSPECT_TO_SERVER] = "worker-to-server",
    [RBT_INSPECT_TO_WORKER] = "server-to-worker",
    [RBT_INSPECT_TO_COORDINATOR] = "member-to-coordinator",
    [RBT_INSPECT_TO_MEMBER] = "coordinator-to-member"};

static bool make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

bool sim_frames_open(const char *folder)
{
    char path[PATH_MAX_BYTES];
    if (strlen(folder) >= sizeof root) {
        errno = ENAMETOOLONG;
        return false;
    }
    bool is_good = make_folder(folder);
    for (int i = 0; is_good && i < RBT_INSPECT_ROUTES; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, folders[i]); /* fits */
        is_good = make_folder(path);
    }
    if (is_good) {
        memcpy(root, folder, strlen(folder) + 1);
    }
    return is_good;
}

/* Whether the name is new and there is room for it; it is not new afterwards. */
static bool keep(uint64_t name)
{
    for (uint32_t i = 0; i < kept_count; i++) {
        if (kept[i] == name) {
            return false;
        }
    }
    if (kept_count == FILES_MAX) {
        return false;
    }
    kept[kept_count++] = name;
    return true;
}

static void write_file(enum rbt_inspect_route route, const char *name, const char *bytes,
                       size_t size)
{
    char path[PATH_MAX_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s/%s", root, folders[route], name); /* fits */
    FILE *file = fopen(path, "wb");
    const bool is_written = file != NULL && fwrite(bytes, 1, size, file) == size;
    const bool is_closed = file != NULL && fclose(file) == 0;
    if (!is_written || !is_closed) {
        fprintf(stderr, "sim: error: could not write %s: %s\n", path, strerror(errno));
        RBT_ASSERT(is_written && is_closed); /* seeds that lack something would not be noticed */
    }
}

/* Keeps one message, if there is none like it. */
static void keep_frame(const struct rbt_inspect_frame *frame, const struct rbt_frame *head)
{
    char name[96];
    const uint32_t class = head->length == 0 ? 0 : 32 - (uint32_t)__builtin_clz(head->length);
    const uint64_t like[4] = {frame->route, head->kind, head->flags, class};
    if (frame->size > FRAME_MAX || !keep(rbt_hash_bytes(like, sizeof like, 0))) {
        return;
    }
    (void)snprintf(name, sizeof name, "%s-%u-%u-%016" PRIx64, frame->message, head->flags, class,
                   rbt_hash_bytes(frame->bytes, frame->size, 0)); /* fits */
    write_file(frame->route, name, frame->bytes, frame->size);
}

/* Which of the first receivers it is, in the order in which they were seen; or RECEIVERS. */
static uint32_t place_of(struct talk *talk, const void *receiver)
{
    uint32_t place = 0;
    while (place < talk->receiver_count && talk->receivers[place] != receiver) {
        place++;
    }
    if (place == talk->receiver_count && place < RECEIVERS) {
        talk->receivers[talk->receiver_count++] = receiver;
    }
    return place;
}

static void follow(struct talk *talk, const struct rbt_inspect_frame *frame)
{
    if (place_of(talk, frame->receiver) != followed || talk->is_full) {
        return;
    }
    if (talk->bytes + 1 + frame->size > TALK_MAX || frame->port >= PORTS) {
        talk->is_full = true;
        return;
    }
    if (talk->port != frame->port) {
        talk->port = frame->port;
        talk->text[talk->bytes++] = (char)(PORT_MARK + frame->port);
    }
    memcpy(talk->text + talk->bytes, frame->bytes, frame->size);
    talk->bytes += frame->size;
}

void sim_frames_note(const struct rbt_inspect_frame *frame)
{
    struct rbt_frame head;
    if (root[0] == '\0') {
        return;
    }
    const rbt_status st = rbt_frame_get(frame->bytes, RBT_FRAME_BODY_MAX, &head);
    RBT_ASSERT(st == RBT_OK);
    keep_frame(frame, &head);
    follow(&talks[frame->route], frame);
}

void sim_frames_begin(uint64_t seed)
{
    if (root[0] == '\0') {
        return;
    }
    followed = (uint32_t)(seed % RECEIVERS);
    for (int i = 0; i < RBT_INSPECT_ROUTES; i++) {
        talks[i].receiver_count = 0;
        talks[i].port = PORTS;
        talks[i].is_full = false;
        talks[i].bytes = 0;
    }
}

void sim_frames_end(void)
{
    char name[96];
    for (int i = 0; root[0] != '\0' && i < RBT_INSPECT_ROUTES; i++) {
        const uint64_t hash = rbt_hash_bytes(talks[i].text, talks[i].bytes, 0);
        if (talks[i].bytes > 0 && talk_counts[i] < ROUTE_TALKS_MAX && keep(hash)) {
            talk_counts[i]++;
            (void)snprintf(name, sizeof name, "talk-%016" PRIx64, hash); /* fits */
            write_file((enum rbt_inspect_route)i, name, talks[i].text, talks[i].bytes);
        }
    }
}
