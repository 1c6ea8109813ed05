/* cli/run_line.c - the command line of `rubato run`, in front of "--". */
#include "cli/run_line.h"

#include <stddef.h>

#include "base/limits.h"

#define AT(field) offsetof(struct rbt_run_line, field)

static const char *const transports[] = {
    [RBT_RUN_AUTO] = "auto", [RBT_RUN_UNIX] = "unix", [RBT_RUN_TCP] = "tcp", NULL};

static const struct rbt_option options[] = {
    {.name = "workers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_WORKERS_MAX,
     .help = "Workers of the job; by default one per core, or per slot of the hosts.",
     .offset = AT(workers)},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_SHARDS_MAX,
     .help = "Server processes; by default 1.",
     .offset = AT(servers)},
    {.name = "threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_WORKERS_MAX,
     .value = "1",
     .help = "Workers per process.",
     .offset = AT(threads)},
    {.name = "server-threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_SHARDS_MAX,
     .value = "1",
     .help = "Threads per server; each has its own shard.",
     .offset = AT(server_threads)},
    {.name = "transport",
     .type = RBT_OPTION_CHOICE,
     .value = "auto",
     .choices = transports,
     .help = "Connections between processes. auto: Unix sockets on one host, TCP between hosts.",
     .offset = AT(transport)},
    {.name = "hosts",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Hosts to run on over ssh, one per line: HOST [slots=N] [address=IP].",
     .offset = AT(hosts)},
    {.name = "listen",
     .type = RBT_OPTION_TEXT,
     .unit = "HOST",
     .help = "Address of this host as seen from the other hosts.",
     .offset = AT(listen)},
    {.name = "coordinator",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Where the coordinator listens: HOST:PORT or unix:PATH; by default a free address.",
     .offset = AT(coordinator)},
    {.name = "key",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "The cluster's key, made by \"rubato keygen\"; also from RUBATO_KEY. TCP always uses "
             "a key; by default one is made for this run.",
     .offset = AT(key)},
    {.name = "ssh",
     .type = RBT_OPTION_TEXT,
     .unit = "CMD",
     .value = "ssh -T -o BatchMode=yes -o ConnectTimeout=10",
     .help = "Command that runs a program on another host.",
     .offset = AT(ssh)},
    {.name = "remote-path",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Path of rubato on the other hosts; by default its path on this host.",
     .offset = AT(remote_path)},
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
    {.name = "compress",
     .type = RBT_OPTION_TEXT,
     .unit = "HOW",
     .help = "Compression of messages, where it pays: none, zeros, lz4 or zstd; by default zeros "
             "over TCP.",
     .offset = AT(compress)},
    {.name = "colocate",
     .type = RBT_OPTION_FLAG,
     .help = "Run the servers inside the first worker processes, whose workers reach them by "
             "function call; for a PROGRAM run them on its hosts as processes.",
     .offset = AT(is_colocated)},
    {.name = "plugin",
     .type = RBT_OPTION_LIST,
     .unit = "PATH...",
     .help =
         "Shared objects, or directories of them, that servers may load as rules, filters and "
         "priorities in addition to those that \"train\" names; a PROGRAM needs it for its own.",
     .offset = AT(plugins)},
    {.name = "verbose",
     .type = RBT_OPTION_FLAG,
     .help = "Print which processes join and leave.",
     .offset = AT(is_verbose)},
};

struct rbt_option_table rbt_run_line_table(struct rbt_run_line *line)
{
    return (struct rbt_option_table){options, sizeof options / sizeof options[0], line};
}
