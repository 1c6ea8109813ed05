/* net/descriptors.c - how many files this process may have open. */
#include "net/descriptors.h"

#include <sys/resource.h>

uint64_t rbt_descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 1024; /* it cannot fail; this is what most systems grant */
    }
    if (limit.rlim_cur < limit.rlim_max) {
        const struct rlimit wanted = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        limit.rlim_cur = setrlimit(RLIMIT_NOFILE, &wanted) == 0 ? limit.rlim_max : limit.rlim_cur;
    }
    return limit.rlim_cur;
}
