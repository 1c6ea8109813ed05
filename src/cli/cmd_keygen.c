/* cli/cmd_keygen.c - `rubato keygen [FILE]`: a new key for a cluster. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "net/security.h"

struct config {
    const char *readers_of;
};

static const struct rbt_option options[] = {
    {.name = "readers-of",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Derive the key of a job's readers from the key of the job (--job-key).",
     .offset = offsetof(struct config, readers_of)},
};

static void print_help(const struct rbt_option_table *table)
{
    puts("Usage: rubato keygen [FILE]\n"
         "       rubato keygen --readers-of FILE [FILE]\n\n"
         "Makes a new random key for a cluster: 64 hexadecimal digits. Processes with\n"
         "equal keys accept each other and encrypt their messages; all others are\n"
         "refused. With FILE the key is written there, for its owner alone to read;\n"
         "without, it is printed. An existing file is never overwritten.\n\n"
         "Every process of a cluster needs the key: give it with --key FILE, or put the\n"
         "name of the file into the environment as RUBATO_KEY.\n\n"
         "Options:\n");
    rbt_option_help(stdout, table);
    puts("\nExamples:\n"
         "  rubato keygen cluster.key\n"
         "  ssh node7 'umask 077; cat > cluster.key' < cluster.key\n"
         "  rubato keygen job.key; rubato keygen --readers-of job.key readers.key");
}

/* A random key, or the one of a job's readers. */
static rbt_status draw_key(const char *job, char text[static RBT_KEY_TEXT])
{
    if (job == NULL) {
        return rbt_key_generate(text);
    }
    char key[RBT_KEY_TEXT];
    rbt_status st = rbt_key_read(job, key);
    st = st != RBT_OK ? st : rbt_key_of_readers(key, text);
    explicit_bzero(key, sizeof key);
    return st;
}

static rbt_status make_key(const struct config *config, const char *path)
{
    char text[RBT_KEY_TEXT];
    rbt_status st = draw_key(config->readers_of, text);
    if (st == RBT_OK && path == NULL) {
        puts(text); /* main() looks whether it arrived */
    } else if (st == RBT_OK) {
        st = rbt_key_write(path, text);
    }
    explicit_bzero(text, sizeof text);
    if (st == RBT_OK && path != NULL && config->readers_of != NULL) {
        fprintf(stderr, "wrote the key of the readers to %s; use it with --job-key %s\n", path,
                path);
    } else if (st == RBT_OK && path != NULL) {
        fprintf(stderr, "wrote a new key to %s; use it with --key %s or RUBATO_KEY=%s\n", path,
                path, path);
    }
    return st;
}

int rbt_cmd_keygen(int argc, char *const *argv)
{
    struct config config;
    const struct rbt_option_table table = {options, sizeof options / sizeof options[0], &config};
    const struct rbt_option_command command = {.name = "rubato keygen",
                                               .tables = &table,
                                               .table_count = 1,
                                               .positional_max = 1,
                                               .section = "KEYGEN"};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(&table);
        return RBT_EXIT_OK;
    }
    if (st == RBT_OK) {
        st = make_key(&config, arguments.count > 0 ? arguments.values[0] : NULL);
    }
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
