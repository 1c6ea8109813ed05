/* cli/run_line.c - the command line of `rubato run`, in front of "--". */
#include "cli/run_line.h"

#include <stddef.h>

#define AT(field) offsetof(struct rbt_run_line, field)

static const char *const transports[] = {
    [RBT_RUN_AUTO] = "auto", [RBT_RUN_UNIX] = "unix", [RBT_RUN_TCP] = "tcp", NULL};

static const struct rbt_option options[] = {
    {.name = "workers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .help = "Workers of the job; by default one per core, or per slot of the hosts.",
     .offset = AT(workers)},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 256,
     .help = "Server processes; by default 1.",
     .offset = AT(servers)},
    {.name = "threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .value = "1",
     .help = "Workers per process.",
     .offset = AT(threads)},
    {.name = "server-threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 256,
     .value = "1",
     .help = "Threads per server, each with a shard of its own.",
     .offset = AT(server_threads)},
    {.name = "transport",
     .type = RBT_OPTION_CHOICE,
     .value = "auto",
     .choices = transports,
     .help = "How processes talk; auto is Unix sockets on one host and TCP between hosts.",
     .offset = AT(transport)},
    {.name = "hosts",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Hosts to run on over ssh, one per line: HOST [slots=N] [address=IP].",
     .offset = AT(hosts)},
    {.name = "listen",
     .type = RBT_OPTION_TEXT,
     .unit = "HOST",
     .help = "The address of this host that the others use.",
     .offset = AT(listen)},
    {.name = "coordinator",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Where the coordinator listens: HOST:PORT or unix:PATH; by default a free place.",
     .offset = AT(coordinator)},
    {.name = "key",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help =
         "The cluster's key, made by \"rubato keygen\"; also from RUBATO_KEY. Over TCP there is "
         "always one, by default a new one for this run.",
     .offset = AT(key)},
    {.name = "ssh",
     .type = RBT_OPTION_TEXT,
     .unit = "CMD",
     .value = "ssh -T -o BatchMode=yes -o ConnectTimeout=10",
     .help = "What runs a command on another host.",
     .offset = AT(ssh)},
    {.name = "remote-path",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Where rubato is on other hosts; by default the same place as here.",
     .offset = AT(remote_path)},
    {.name = "start-timeout",
     .type = RBT_OPTION_TIME,
     .min = 0.1,
     .max = 86400,
     .value = "30",
     .help = "How long to wait until all processes are there.",
     .offset = AT(start_timeout)},
    {.name = "timeout",
     .type = RBT_OPTION_TIME,
     .min = 0.1,
     .max = 86400,
     .value = "10",
     .help = "After so much time without a sign of life a process is lost.",
     .offset = AT(timeout)},
    {.name = "compress",
     .type = RBT_OPTION_TEXT,
     .unit = "HOW",
     .help =
         "What makes messages smaller, when it pays: none, zeros, lz4 or zstd; by default zeros "
         "are left out over TCP.",
     .offset = AT(compress)},
    {.name = "colocate",
     .type = RBT_OPTION_FLAG,
     .help = "Servers live in the first worker processes, whose workers reach them by function "
             "call; those of a program run beside them, on the same hosts.",
     .offset = AT(is_colocated)},
    {.name = "plugin",
     .type = RBT_OPTION_LIST,
     .unit = "PATH...",
     .help = "Shared objects that servers may load as rules, filters and priorities, beside those "
             "that \"train\" names, or directories of them; for a PROGRAM's.",
     .offset = AT(plugins)},
    {.name = "verbose",
     .type = RBT_OPTION_FLAG,
     .help = "Say which processes come and go.",
     .offset = AT(is_verbose)},
};

struct rbt_option_table rbt_run_line_table(struct rbt_run_line *line)
{
    return (struct rbt_option_table){options, sizeof options / sizeof options[0], line};
}
