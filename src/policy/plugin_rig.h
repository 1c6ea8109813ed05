/* policy/plugin_rig.h - for tests of users' shared objects: the arguments of such a test, which are
 * the folder with the cases and the worked example, and what must be refused. Include it in place
 * of base/test.h. */
#ifndef RUBATO_POLICY_PLUGIN_RIG_H
#define RUBATO_POLICY_PLUGIN_RIG_H

#include "base/test.h"

#include <stdio.h>

#include "base/error.h"
#include "policy/plugin.h"

static const char *rig_folder;
static const char *rig_example;

/* Returns 0, or after a complaint what main() should return. */
static inline int rig_arguments(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: %s FOLDER EXAMPLE\n", argv[0]);
        return 2;
    }
    rig_folder = argv[1];
    rig_example = argv[2];
    return 0;
}

/* The path of a case, until the next call. */
static inline const char *rig_path(const char *name)
{
    static char path[RBT_PLUGIN_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", rig_folder, name);
    return path;
}

struct rig_case {
    const char *name;      /* of the file */
    const char *complaint; /* a part of the sentence */
    const char *hint;      /* how the hint begins */
};

static inline void rig_refuses(rbt_status (*find)(const char *path), const struct rig_case *cases,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_fails(find(rig_path(cases[i].name)), RBT_E_INVALID, cases[i].complaint);
        assert_true(strncmp(rbt_last_hint(), cases[i].hint, strlen(cases[i].hint)) == 0);
    }
}

#endif
