/* examples/priority.c - a priority of your own: rows that move far for their size go first,
 * ||change|| / (1 + ||value||).
 *
 *     cc -O2 -shared -fPIC -o turn.so priority.c $(pkg-config --cflags rubato)
 *     rubato train mf ... --rule adarev --bandwidth 25MB --priority ./turn.so */
#include <math.h>
#include <rubato/priority.h>
#include <stddef.h>

static float norm(const float *x, uint32_t width)
{
    float sum = 0;
    for (uint32_t i = 0; x != NULL && i < width; i++) {
        sum += x[i] * x[i];
    }
    return sqrtf(sum);
}

static float score(const struct rbt_priority_row *row)
{
    return norm(row->change, row->width) / (1 + norm(row->value, row->width));
}

RBT_PRIORITY_EXPORT const struct rbt_priority rbt_priority = {
    .abi = RBT_PRIORITY_ABI,
    .struct_size = sizeof rbt_priority,
    .name = "turn",
    .summary = "Rows that move far for their size go first.",
    .score = score};
