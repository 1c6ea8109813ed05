/* algo/frame/room.h - arrays that are allocated together and freed together.
 *
 *     part->weights = rbt_room_take(&part->room, n, sizeof *part->weights);
 *     part->order = rbt_room_take(&part->room, m, sizeof *part->order);
 *     if (part->room.is_short) { ... no memory ... }
 *     ...
 *     rbt_room_free(&part->room);
 *
 * A room that is all zero is empty. Threads: none; a room belongs to whatever has its arrays. */
#ifndef RUBATO_ALGO_FRAME_ROOM_H
#define RUBATO_ALGO_FRAME_ROOM_H

#include <stdbool.h>
#include <stddef.h>

enum { RBT_ROOM_MAX = 16 }; /* arrays */

struct rbt_room {
    void *arrays[RBT_ROOM_MAX];
    size_t count;
    bool is_short; /* memory for an array was missing */
};

/* An array of zeros (rbt_calloc), or NULL. */
void *rbt_room_take(struct rbt_room *room, size_t count, size_t size);

/* Frees all arrays and leaves an empty room. */
void rbt_room_free(struct rbt_room *room);

#endif
