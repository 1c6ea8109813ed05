/* launch/hosts.c - the hosts of a job, who runs where, and how to start it there. */
#include "launch/hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/file.h"

enum { FILE_MAX = 1 << 20 };

static const char blanks[] = " \t\r";

/* A place in a hosts file, for messages. */
struct place {
    const char *path;
    size_t line;
};

static rbt_status refuse(const struct place *place, const char *what, const char *text)
{
    const rbt_status st = rbt_fail(RBT_E_INVALID, "cannot use \"%s\", line %zu: %s \"%s\"",
                                   place->path, place->line, what, text);
    return rbt_fail_hint(st, "A line is HOST [slots=N] [address=IP]; \"#\" starts a comment.");
}

/* Whether the name is "localhost" or this host's, with or without a domain. */
static bool is_own(const char *name, const char *own)
{
    const size_t length = strcspn(own, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, own) == 0 ||
           (length > 0 && strlen(name) == length && strncmp(name, own, length) == 0);
}

/* What follows the name: slots=N or address=IP. */
static rbt_status parse_word(const struct place *place, const char *word, struct rbt_host *host)
{
    static const char slots[] = "slots=";
    static const char address[] = "address=";
    if (strncmp(word, slots, strlen(slots)) == 0) {
        int64_t count = 0;
        if (!rbt_text_to_int(word + strlen(slots), &count) || count < 1 ||
            count > RBT_HOST_SLOTS_MAX) {
            return refuse(place, "slots needs a whole number from 1 to 1024, got", word);
        }
        host->slots = count;
        return RBT_OK;
    }
    if (strncmp(word, address, strlen(address)) == 0 && word[strlen(address)] != '\0') {
        snprintf(host->address, sizeof host->address, "%s", word + strlen(address));
        return RBT_OK;
    }
    return refuse(place, "unrecognised word", word);
}

/* One line without its end; `*is_host` says whether there is a host in it. */
static rbt_status parse_line(const struct place *place, char *line, struct rbt_host *host,
                             bool *is_host)
{
    line[strcspn(line, "#")] = '\0';
    char *rest = NULL;
    char *word = strtok_r(line, blanks, &rest);
    *is_host = word != NULL;
    if (word == NULL) {
        return RBT_OK;
    }
    /* ssh would take a name that begins with a dash for an option. */
    if (word[0] == '-' || strchr(word, '=') != NULL || strlen(word) >= RBT_HOST_NAME) {
        return refuse(place, "a line must begin with a host, got", word);
    }
    *host = (struct rbt_host){.slots = 1};
    snprintf(host->name, sizeof host->name, "%s", word);
    for (word = strtok_r(NULL, blanks, &rest); word != NULL; word = strtok_r(NULL, blanks, &rest)) {
        if (strlen(word) >= RBT_HOST_NAME) {
            return refuse(place, "a word is too long:", word);
        }
        const rbt_status st = parse_word(place, word, host);
        if (st != RBT_OK) {
            return st;
        }
    }
    return RBT_OK;
}

/* All lines of `text`, which is changed on the way, into `items`, which has room. */
static rbt_status parse_lines(char *text, const char *path, const char *own_name,
                              struct rbt_hosts *hosts)
{
    struct place place = {.path = path};
    for (char *line = text, *next = NULL; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        place.line++;
        struct rbt_host host;
        bool is_host = false;
        const rbt_status st = parse_line(&place, line, &host, &is_host);
        if (st != RBT_OK) {
            return st;
        }
        if (is_host && hosts->count == RBT_HOSTS_MAX) {
            return refuse(&place, "more hosts than 1024, here", host.name);
        }
        if (is_host) {
            host.is_here = is_own(host.name, own_name);
            hosts->items[hosts->count++] = host;
        }
    }
    if (hosts->count == 0) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "cannot use \"%s\": it names no host", path);
        return rbt_fail_hint(st, "A line is HOST [slots=N] [address=IP].");
    }
    return RBT_OK;
}

rbt_status rbt_hosts_parse(const char *text, const char *path, const char *own_name,
                           struct rbt_hosts *hosts)
{
    size_t lines = 1;
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    const size_t room = lines < RBT_HOSTS_MAX ? lines : RBT_HOSTS_MAX;
    struct rbt_hosts found = {.items = rbt_calloc(room, sizeof *found.items)};
    char *copy = rbt_strdup(text);
    rbt_status st = found.items == NULL || copy == NULL
                        ? rbt_fail(RBT_E_NOMEM, "could not allocate the hosts of \"%s\"", path)
                        : parse_lines(copy, path, own_name, &found);
    rbt_free(copy);
    if (st != RBT_OK) {
        rbt_hosts_deinit(&found);
        return st;
    }
    *hosts = found;
    return RBT_OK;
}

rbt_status rbt_hosts_read(const char *path, const char *own_name, struct rbt_hosts *hosts)
{
    struct rbt_text_buffer text = {0};
    rbt_status st = rbt_file_read(path, RBT_FILE_REGULAR, FILE_MAX, &text);
    if (st != RBT_OK) {
        st = rbt_fail_in(st, "cannot read \"%s\"", path);
    } else if (text.length > FILE_MAX) {
        st = rbt_fail(RBT_E_INVALID, "cannot use \"%s\": a file of hosts has at most 1 MiB", path);
    }
    st = st != RBT_OK ? st : rbt_hosts_parse(rbt_text_data(&text), path, own_name, hosts);
    rbt_text_deinit(&text);
    return st;
}

void rbt_hosts_deinit(struct rbt_hosts *hosts)
{
    rbt_free(hosts->items);
    *hosts = (struct rbt_hosts){0};
}

const struct rbt_host *rbt_hosts_of_server(const struct rbt_hosts *hosts, uint64_t index)
{
    RBT_ASSERT(hosts->count > 0);
    return &hosts->items[index % hosts->count];
}

int64_t rbt_hosts_slots(const struct rbt_hosts *hosts)
{
    int64_t slots = 0;
    for (size_t i = 0; i < hosts->count; i++) {
        slots += hosts->items[i].slots;
    }
    return slots;
}

const struct rbt_host *rbt_hosts_of_worker(const struct rbt_hosts *hosts, uint64_t index)
{
    RBT_ASSERT(hosts->count > 0);
    int64_t slot = (int64_t)(index % (uint64_t)rbt_hosts_slots(hosts));
    size_t host = 0;
    while (slot >= hosts->items[host].slots) {
        slot -= hosts->items[host++].slots;
    }
    RBT_ASSERT(host < hosts->count);
    return &hosts->items[host];
}

bool rbt_hosts_has_far(const struct rbt_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (!hosts->items[i].is_here) {
            return true;
        }
    }
    return false;
}

void rbt_host_listen(const struct rbt_host *host, char *address, size_t size)
{
    const char *name = host->address[0] != '\0' ? host->address : host->name;
    const bool is_bare = strchr(name, ':') != NULL && name[0] != '[';
    snprintf(address, size, is_bare ? "[%s]:0" : "%s:0", name);
}

void rbt_host_command(const struct rbt_host *host, const char *ssh, char *const *argv,
                      struct rbt_argv *words)
{
    rbt_argv_add_split(words, ssh);
    rbt_argv_add_word(words, host->name);
    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "exec");
    for (; *argv != NULL; argv++) {
        rbt_text_add(&text, " ");
        rbt_argv_quote(&text, *argv);
    }
    rbt_argv_add_word(words, rbt_text_data(&text));
    words->has_failed = words->has_failed || text.has_failed;
    rbt_text_deinit(&text);
}
