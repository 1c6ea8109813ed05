/* algo/frame/room.c - arrays that are allocated together and freed together. */
#include "algo/frame/room.h"

#include "base/alloc.h"
#include "base/assert.h"

void *rbt_room_take(struct rbt_room *room, size_t count, size_t size)
{
    RBT_ASSERT(room->count < RBT_ROOM_MAX);
    void *array = rbt_calloc(count, size);
    room->arrays[room->count++] = array;
    room->is_short = room->is_short || array == NULL;
    return array;
}

void rbt_room_free(struct rbt_room *room)
{
    for (size_t i = 0; i < room->count; i++) {
        rbt_free(room->arrays[i]);
    }
    *room = (struct rbt_room){0};
}
