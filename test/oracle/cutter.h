/* oracle/cutter.h - for tests: a line that is cut again and again. A thread that stands between
 * clients and a server, carries bytes both ways, and closes a connection after so many bytes, which
 * a seed decides: mostly in the middle of a frame. After so many cuts it leaves everybody in peace,
 * so that a test comes to its end.
 *
 * Threads: start and stop are the test's; the rest is the cutter's own thread. */
#ifndef RUBATO_ORACLE_CUTTER_H
#define RUBATO_ORACLE_CUTTER_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/rng.h"
#include "net/address.h"

enum { CUTTER_LINES = 64 };

struct cutter {
    char address[RBT_ADDRESS_MAX]; /* where clients connect to */
    char target[RBT_ADDRESS_MAX];
    uint32_t cuts_left;
    uint32_t bytes_max; /* of a connection that is cut */
    uint32_t cuts;      /* so far; after cutter_stop() */
    struct rbt_rng rng;
    int listener;
    int stop[2];
    int lines[CUTTER_LINES][2]; /* a client and its server; -1: free */
    uint32_t left[CUTTER_LINES];
    pthread_t thread;
};

static void cutter_close(struct cutter *cutter, int line)
{
    for (int side = 0; side < 2; side++) {
        (void)close(cutter->lines[line][side]);
        cutter->lines[line][side] = -1;
    }
}

/* Waits for the server, which may not be there yet: then the client is sent away. */
static void cutter_accept(struct cutter *cutter)
{
    int client = -1;
    int server = -1;
    int line = 0;
    if (rbt_address_accept(cutter->listener, &client) != RBT_OK) {
        return;
    }
    while (line < CUTTER_LINES && cutter->lines[line][0] >= 0) {
        line++;
    }
    RBT_ASSERT(line < CUTTER_LINES);
    if (rbt_address_begin(cutter->target, &server) != RBT_OK ||
        rbt_address_finish(cutter->target, server) != RBT_OK) {
        (void)close(client);
        return;
    }
    cutter->lines[line][0] = client;
    cutter->lines[line][1] = server;
    cutter->left[line] =
        cutter->cuts_left > 0 ? 1 + (uint32_t)(rbt_rng_next(&cutter->rng) % cutter->bytes_max) : 0;
    cutter->cuts_left -= cutter->cuts_left > 0;
}

/* Everything, however long the other side takes. */
static bool cutter_write(int socket, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
        if (sent < 0) {
            struct pollfd full = {.fd = socket, .events = POLLOUT};
            if (poll(&full, 1, 1000) <= 0 || (full.revents & (POLLERR | POLLHUP)) != 0) {
                return false;
            }
            continue;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Carries what one side has sent to the other. */
static void cutter_carry(struct cutter *cutter, int line, int side)
{
    char bytes[4096];
    const uint32_t left = cutter->left[line];
    const size_t most = left > 0 && left < sizeof bytes ? left : sizeof bytes;
    const ssize_t got = recv(cutter->lines[line][side], bytes, most, MSG_DONTWAIT);
    if (got < 0) {
        return;
    }
    if (got == 0 || !cutter_write(cutter->lines[line][1 - side], bytes, (size_t)got)) {
        cutter_close(cutter, line);
        return;
    }
    if (left > 0) {
        cutter->left[line] -= (uint32_t)got;
        if (cutter->left[line] == 0) {
            cutter->cuts++;
            cutter_close(cutter, line);
        }
    }
}

static void *cutter_run(void *argument)
{
    struct cutter *cutter = argument;
    for (;;) { /* ends: when it is told to stop */
        struct pollfd polls[2 + 2 * CUTTER_LINES];
        polls[0] = (struct pollfd){.fd = cutter->stop[0], .events = POLLIN};
        polls[1] = (struct pollfd){.fd = cutter->listener, .events = POLLIN};
        for (int i = 0; i < 2 * CUTTER_LINES; i++) {
            polls[2 + i] = (struct pollfd){.fd = cutter->lines[i / 2][i % 2], .events = POLLIN};
        }
        const int ready = poll(polls, 2 + 2 * CUTTER_LINES, -1);
        if (ready < 0 || polls[0].revents != 0) {
            return NULL;
        }
        for (int i = 0; i < 2 * CUTTER_LINES; i++) {
            if (polls[2 + i].revents != 0 && cutter->lines[i / 2][i % 2] == polls[2 + i].fd) {
                cutter_carry(cutter, i / 2, i % 2);
            }
        }
        if (polls[1].revents != 0) {
            cutter_accept(cutter);
        }
    }
}

/* `address`, `target`, `cuts_left` and `bytes_max` are set. */
static void cutter_start(struct cutter *cutter, uint64_t seed)
{
    char actual[RBT_ADDRESS_MAX];
    memset(cutter->lines, 0xff, sizeof cutter->lines);
    rbt_rng_init(&cutter->rng, seed, 0, 0);
    const rbt_status st = rbt_address_listen(cutter->address, actual, &cutter->listener);
    RBT_ASSERT(st == RBT_OK);
    int error = pipe(cutter->stop);
    RBT_ASSERT(error == 0);
    error = pthread_create(&cutter->thread, NULL, cutter_run, cutter);
    RBT_ASSERT(error == 0);
}

static void cutter_stop(struct cutter *cutter)
{
    (void)close(cutter->stop[1]); /* the other end becomes readable */
    const int error = pthread_join(cutter->thread, NULL);
    RBT_ASSERT(error == 0);
    for (int line = 0; line < CUTTER_LINES; line++) {
        if (cutter->lines[line][0] >= 0) {
            cutter_close(cutter, line);
        }
    }
    (void)close(cutter->stop[0]);
    (void)close(cutter->listener);
    (void)unlink(cutter->address + strlen("unix:"));
}

#endif
