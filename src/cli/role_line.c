/* cli/role_line.c - what the processes of a cluster have in common on the command line: the key,
 * the time-outs, and being a child of `rubato run`. */
#include "cli/role_line.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "launch/child.h"
#include "net/address.h"
#include "net/descriptors.h"

#define CUT_SECONDS 3.0
#define AT(field)   offsetof(struct rbt_role_line, field)

static const struct rbt_option options[] = {
    {.name = "key",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "The cluster's key, made by \"rubato keygen\"; also from RUBATO_KEY. Without a key "
             "only Unix sockets work.",
     .offset = AT(key)},
    {.name = "insecure",
     .type = RBT_OPTION_FLAG,
     .help = "Use TCP without a key: nothing is encrypted and every process that can connect is "
             "admitted. Also from RUBATO_INSECURE=1.",
     .offset = AT(is_insecure)},
    {.name = "start-timeout",
     .type = RBT_OPTION_TIME,
     .min = 0.1,
     .max = 86400,
     .value = "30",
     .help = "Longest wait until all processes have joined.",
     .offset = AT(start_timeout)},
    {.name = "timeout",
     .type = RBT_OPTION_TIME,
     .min = 0.1,
     .max = 86400,
     .value = "10",
     .help = "A process is lost if nothing is heard from it for this long.",
     .offset = AT(timeout)},
    {.name = "quiet",
     .type = RBT_OPTION_FLAG,
     .help = "Print warnings only, not which processes join and leave.",
     .offset = AT(is_quiet)},
    {.name = "die-with-stdin",
     .type = RBT_OPTION_FLAG,
     .help = "Run as a child of \"rubato run\": read the key from standard input and end at its "
             "end of file.",
     .offset = AT(is_child)},
};

struct rbt_option_table rbt_role_line_table(struct rbt_role_line *role)
{
    return (struct rbt_option_table){options, sizeof options / sizeof options[0], role};
}

rbt_status rbt_role_line_key(const char *path, char text[static RBT_KEY_TEXT])
{
    const char *place = path != NULL ? path : getenv("RUBATO_KEY");
    if (place == NULL || place[0] == '\0') {
        text[0] = '\0';
        return RBT_OK;
    }
    return rbt_key_read(place, text);
}

rbt_status rbt_role_line_coordinator(const char *given, const char **address)
{
    const char *found = given != NULL ? given : getenv("RUBATO_COORDINATOR");
    if (found == NULL || found[0] == '\0') {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "option \"--coordinator\" is missing");
        return rbt_fail_hint(
            st,
            "Give the coordinator's address: --coordinator HOST:PORT or --coordinator unix:PATH.");
    }
    const rbt_status st = rbt_address_check(found);
    if (st == RBT_OK) {
        *address = found;
    }
    return st;
}

rbt_status rbt_role_line_begin(struct rbt_role_line *role)
{
    rbt_log_set_quiet(role->is_quiet);
    (void)rbt_descriptors_raise(); /* as many as there are */
    rbt_status st = RBT_OK;
    if (role->is_child) {
        struct rbt_child child;
        st = rbt_child_read(STDIN_FILENO, &child);
        st = st != RBT_OK ? st : rbt_child_attach(&child, role->is_program);
        if (st != RBT_OK) {
            return st;
        }
        memcpy(role->key_text, child.key, sizeof child.key);
        explicit_bzero(&child, sizeof child);
    }
    if (role->key_text[0] == '\0') {
        st = rbt_role_line_key(role->key, role->key_text);
    }
    if (st == RBT_OK && role->key_text[0] != '\0') {
        st = rbt_security_open(role->key_text, &role->security);
    }
    return st;
}

rbt_status rbt_role_line_allow(struct rbt_role_line *role, const char *address)
{
    const char *setting = getenv("RUBATO_INSECURE");
    if (role->security != NULL || rbt_address_is_unix(address)) {
        return RBT_OK;
    }
    if (!role->is_insecure && (setting == NULL || strcmp(setting, "1") != 0)) {
        const rbt_status st = rbt_fail(RBT_E_INVALID,
                                       "address \"%s\" needs a key: without one every process that "
                                       "can connect would join the cluster",
                                       address);
        return rbt_fail_hint(
            st, "Make one with \"rubato keygen FILE\" and give \"--key FILE\" to all processes, or "
                "use a Unix socket; \"--insecure\" allows TCP without a key.");
    }
    if (!role->has_warned) {
        fputs("rubato: warning: no key is given: nothing is encrypted, and every process that can "
              "connect is admitted\n",
              stderr);
        role->has_warned = true;
    }
    return RBT_OK;
}

void rbt_role_line_end(struct rbt_role_line *role)
{
    if (role->security != NULL) {
        rbt_security_close(role->security);
    }
    explicit_bzero(role->key_text, sizeof role->key_text);
}

rbt_time rbt_role_line_time(double seconds)
{
    return (rbt_time)(seconds * 1e9);
}

rbt_time rbt_role_line_cut(const struct rbt_role_line *role)
{
    return rbt_role_line_time(role->timeout < CUT_SECONDS ? role->timeout : CUT_SECONDS);
}
