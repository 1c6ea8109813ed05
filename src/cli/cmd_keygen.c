/* cli/cmd_keygen.c - `rubato keygen [FILE]`: a new key for a cluster. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "net/security.h"

static void print_help(void)
{
    puts("Usage: rubato keygen [FILE]\n\n"
         "Makes a new random key for a cluster: 64 hexadecimal digits. Processes that have\n"
         "the same key let each other in and encrypt what they send; all others are\n"
         "refused. With FILE the key is written there, for its owner alone to read;\n"
         "without, it is printed. An existing file is never overwritten.\n\n"
         "Every process of a cluster needs the key: give it with --key FILE, or put the\n"
         "name of the file into the environment as RUBATO_KEY.\n\n"
         "Examples:\n"
         "  rubato keygen cluster.key\n"
         "  ssh node7 'umask 077; cat > cluster.key' < cluster.key");
}

static rbt_status make_key(const char *path)
{
    char text[RBT_KEY_TEXT];
    rbt_status st = rbt_key_generate(text);
    if (st == RBT_OK && path == NULL) {
        puts(text); /* main() looks whether it arrived */
    } else if (st == RBT_OK) {
        st = rbt_key_write(path, text);
    }
    explicit_bzero(text, sizeof text);
    if (st == RBT_OK && path != NULL) {
        fprintf(stderr, "wrote a new key to %s; use it with --key %s or RUBATO_KEY=%s\n", path,
                path, path);
    }
    return st;
}

int rbt_cmd_keygen(int argc, char *const *argv)
{
    const struct rbt_option_command command = {.name = "rubato keygen", .positional_max = 1};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help();
        return RBT_EXIT_OK;
    }
    if (st == RBT_OK) {
        st = make_key(arguments.count > 0 ? arguments.values[0] : NULL);
    }
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
