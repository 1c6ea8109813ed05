/* net/address.c - addresses and the sockets behind them.
 *
 * Everything that can go wrong when a process looks for another one becomes a sentence here: it is
 * the part of a cluster that people get wrong most. Errors of the system are therefore put in our
 * own words, and its own are only used for those that nobody expects.
 *
 * Threads: any; no state. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"

#define MS ((rbt_time)1000000)

enum {
    SILENCE_MS = 30000, /* after so long without an answer TCP gives a connection up */
    UNIX_BUFFER = 4 * 1024 * 1024,
    CANDIDATES_MAX = 16, /* addresses of a host that are tried */
};

#define WAIT_MIN (10 * MS) /* between two attempts to connect */

static const char UNIX_PREFIX[] = "unix:";

/* An address, taken apart. */
struct parts {
    const char *path; /* of a Unix socket, or NULL */
    char host[RBT_ADDRESS_MAX];
    char port[8];
};

/* One address as the kernel knows it. */
struct place {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
        struct sockaddr_storage room;
    };
    socklen_t size;
};

bool rbt_address_is_unix(const char *address)
{
    return strncmp(address, UNIX_PREFIX, sizeof UNIX_PREFIX - 1) == 0;
}

static rbt_status take_path(const char *address, struct parts *parts)
{
    parts->path = address + sizeof UNIX_PREFIX - 1;
    const size_t size_max = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
    if (parts->path[0] == '\0') {
        return rbt_fail(RBT_E_INVALID, "the address \"%s\" needs a path after \"unix:\"", address);
    }
    if (strlen(parts->path) > size_max) {
        const rbt_status st = rbt_fail(
            RBT_E_INVALID, "the path of the address \"%s\" is longer than the %zu bytes allowed",
            address, size_max);
        return rbt_fail_hint(st, "Choose a directory with a shorter name.");
    }
    return RBT_OK;
}

static rbt_status refuse_form(const char *address, const char *why)
{
    const rbt_status st = rbt_fail(RBT_E_INVALID, "\"%s\" is not an address: %s", address, why);
    return rbt_fail_hint(st, "Write HOST:PORT, [IPV6]:PORT or unix:PATH.");
}

/* Takes the text apart; looks nothing up. */
static rbt_status take_apart(const char *address, struct parts *parts)
{
    *parts = (struct parts){0};
    if (strlen(address) >= RBT_ADDRESS_MAX) {
        return refuse_form(address, "it is too long");
    }
    if (rbt_address_is_unix(address)) {
        return take_path(address, parts);
    }
    const char *colon = strrchr(address, ':');
    if (colon == NULL) {
        return refuse_form(address, "it has no port");
    }
    const char *begin = address;
    const char *end = colon;
    if (address[0] == '[') {
        begin = address + 1;
        end = strchr(address, ']');
        if (end == NULL || end + 1 != colon) {
            return refuse_form(address, "\"[\" needs \"]:PORT\" after the host");
        }
    } else if (memchr(begin, ':', (size_t)(end - begin)) != NULL) {
        return refuse_form(address, "a host with colons needs brackets");
    }
    if (begin == end) {
        return refuse_form(address, "it has no host");
    }
    const size_t digits = strspn(colon + 1, "0123456789");
    int64_t port = 0;
    if (digits == 0 || digits > 5 || colon[1 + digits] != '\0' ||
        !rbt_text_to_int(colon + 1, &port) || port > UINT16_MAX) {
        return refuse_form(address, "its port is not a number from 0 to 65535");
    }
    memcpy(parts->host, begin, (size_t)(end - begin));
    memcpy(parts->port, colon + 1, digits);
    return RBT_OK;
}

rbt_status rbt_address_check(const char *address)
{
    struct parts parts;
    return take_apart(address, &parts);
}

bool rbt_address_is_local(const char *address)
{
    struct parts parts;
    if (rbt_address_is_unix(address)) {
        return true;
    }
    if (take_apart(address, &parts) != RBT_OK) {
        return false;
    }
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, parts.host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (inet_pton(AF_INET6, parts.host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) ||
               (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
    }
    return strcmp(parts.host, "localhost") == 0;
}

/* What an errno means for a connection, in our words. */
static const char *explain(int error, char *text, size_t size)
{
    switch (error) {
    case ECONNREFUSED:
        return "connection refused";
    case ENOENT:
        return "the socket file does not exist";
    case EAGAIN: /* of a Unix socket */
        return "too many are waiting to connect";
    case ETIMEDOUT:
        return "it does not answer";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "there is no route to it";
    case ECONNRESET:
        return "it closed the connection at once";
    case EACCES:
    case EPERM:
        return "permission denied";
    case EADDRNOTAVAIL:
        return "that is not an address of this host";
    default:
        return strerror_r(error, text, size);
    }
}

/* The whole sentence is ours: errno stays out of it. */
static rbt_status fail_for(const char *what, const char *address, const char *why)
{
    errno = 0;
    return rbt_fail(RBT_E_IO, "could not %s %s: %s", what, address, why);
}

static rbt_status fail_with(const char *what, const char *address, int error)
{
    char text[128];
    return fail_for(what, address, explain(error, text, sizeof text));
}

/* Adds the places of a host to those found so far; returns an error of getaddrinfo(). */
static int add_places(const char *host, const char *port,
                      struct place places[static CANDIDATES_MAX], size_t *count)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const int error = getaddrinfo(host, port, &hints, &list);
    if (error != 0) {
        return error;
    }
    size_t found = *count;
    for (const struct addrinfo *at = list; at != NULL && found < CANDIDATES_MAX; at = at->ai_next) {
        if (at->ai_addrlen <= sizeof places[found].room) {
            memcpy(&places[found].room, at->ai_addr, at->ai_addrlen);
            places[found].size = at->ai_addrlen;
            found++;
        }
    }
    freeaddrinfo(list);
    *count = found;
    return 0;
}

/* The places of a TCP address; `count` is at least 1 on success. "localhost" is this host, whether
 * there is an /etc/hosts that says so or not. */
static rbt_status look_up(const char *what, const char *address, const struct parts *parts,
                          struct place places[static CANDIDATES_MAX], size_t *count)
{
    size_t found = 0;
    int error = 0;
    if (strcmp(parts->host, "localhost") == 0) {
        error = add_places("127.0.0.1", parts->port, places, &found);
        error = error != 0 ? error : add_places("::1", parts->port, places, &found);
    } else {
        error = add_places(parts->host, parts->port, places, &found);
    }
    if (error == EAI_MEMORY) {
        return rbt_fail(RBT_E_NOMEM, "could not %s %s: out of memory", what, address);
    }
    if (error != 0) {
        return fail_for(what, address, "no host of that name was found");
    }
    *count = found;
    return found > 0 ? RBT_OK : fail_for(what, address, "the host has no address");
}

static void set_place(const char *path, struct place *place)
{
    *place = (struct place){.size = sizeof place->local};
    place->local.sun_family = AF_UNIX;
    const size_t size = strlen(path);
    RBT_ASSERT(size < sizeof place->local.sun_path);
    memcpy(place->local.sun_path, path, size);
}

/* All places of an address. */
static rbt_status find_places(const char *what, const char *address,
                              struct place places[static CANDIDATES_MAX], size_t *count)
{
    struct parts parts;
    const rbt_status st = take_apart(address, &parts);
    if (st != RBT_OK) {
        return st;
    }
    if (parts.path != NULL) {
        set_place(parts.path, &places[0]);
        *count = 1;
        return RBT_OK;
    }
    return look_up(what, address, &parts, places, count);
}

static void set_option(int socket, int level, int option, int value)
{
    /* Only wishes: without them we are slower, or notice a silent network later. */
    (void)setsockopt(socket, level, option, &value, sizeof value);
}

/* What every connection gets. The buffers of TCP are left alone: setting them would end the
 * kernel's own tuning, which is better. */
static void tune(int socket)
{
    int family = AF_UNSPEC;
    socklen_t size = sizeof family;
    (void)getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size); /* cannot fail for a socket */
    if (family == AF_UNIX) {
        set_option(socket, SOL_SOCKET, SO_SNDBUF, UNIX_BUFFER);
        set_option(socket, SOL_SOCKET, SO_RCVBUF, UNIX_BUFFER);
        return;
    }
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

static int make_socket(const struct place *place)
{
    return socket(place->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Whether somebody listens behind a socket file. EAGAIN means that many others are trying. */
static bool is_answered(const struct place *place)
{
    const int fd = make_socket(place);
    const bool is = fd < 0 || connect(fd, &place->any, place->size) == 0 || errno != ECONNREFUSED;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is;
}

/* After bind() has found a file: removes it if it is a socket that nobody listens on. Two processes
 * that replace the same file at the same moment can still take it from each other; each job has its
 * own directory. */
static rbt_status remove_stale(const char *address, const struct place *place)
{
    struct stat status;
    const char *path = place->local.sun_path;
    if (lstat(path, &status) != 0) {
        return errno == ENOENT ? RBT_OK : fail_with("listen on", address, errno);
    }
    if (!S_ISSOCK(status.st_mode)) {
        return fail_for("listen on", address, "a file of that name exists");
    }
    if (is_answered(place)) {
        return fail_for("listen on", address, "another process listens there");
    }
    return unlink(path) == 0 || errno == ENOENT ? RBT_OK : fail_with("listen on", address, errno);
}

static rbt_status fail_bind(const char *address, const struct place *place, int error)
{
    const bool is_unix = place->any.sa_family == AF_UNIX;
    if (error == EADDRINUSE) {
        return fail_for("listen on", address,
                        is_unix ? "another process listens there" : "the port is in use");
    }
    if (error == ENOENT || error == ENOTDIR) {
        return fail_for("listen on", address, "its directory does not exist");
    }
    if (error == EACCES || error == EROFS || error == EPERM) {
        return fail_for("listen on", address,
                        is_unix ? "its directory may not be written"
                                : "this user may not use that port");
    }
    return fail_with("listen on", address, error);
}

static rbt_status bind_place(const char *address, const struct place *place, int fd)
{
    if (place->any.sa_family != AF_UNIX) {
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* a server may start again at once */
        if (place->any.sa_family == AF_INET6) {
            set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0); /* "[::]" means all interfaces */
        }
        return bind(fd, &place->any, place->size) == 0 ? RBT_OK : fail_bind(address, place, errno);
    }
    /* The file takes its mode from the socket, so that it is never open to others. */
    if (fchmod(fd, S_IRUSR | S_IWUSR) != 0) {
        return fail_with("listen on", address, errno);
    }
    if (bind(fd, &place->any, place->size) == 0) {
        return RBT_OK;
    }
    if (errno != EADDRINUSE) {
        return fail_bind(address, place, errno);
    }
    const rbt_status st = remove_stale(address, place);
    if (st != RBT_OK) {
        return st;
    }
    return bind(fd, &place->any, place->size) == 0 ? RBT_OK : fail_bind(address, place, errno);
}

/* Where the listener came to be. */
static void print_place(const char *address, int fd, char actual[static RBT_ADDRESS_MAX])
{
    struct place place = {.size = sizeof place.room};
    char host[INET6_ADDRSTRLEN + 32]; /* with a zone */
    char port[8];
    if (rbt_address_is_unix(address) || getsockname(fd, &place.any, &place.size) != 0 ||
        getnameinfo(&place.any, place.size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(actual, RBT_ADDRESS_MAX, "%s", address); /* it fits: take_apart() has seen */
        return;
    }
    const bool is_v6 = place.any.sa_family == AF_INET6;
    (void)snprintf(actual, RBT_ADDRESS_MAX, is_v6 ? "[%s]:%s" : "%s:%s", host, port); /* it fits */
}

/* Which place to listen on: a name may stand for an address of IPv6 on a host that has none. */
static const struct place *pick_own(const struct place *places, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        struct place probe = places[i];
        if (probe.any.sa_family == AF_INET6) {
            probe.v6.sin6_port = 0;
        } else {
            probe.v4.sin_port = 0;
        }
        const int fd = make_socket(&probe);
        const bool is_own = fd >= 0 && bind(fd, &probe.any, probe.size) == 0;
        if (fd >= 0) {
            (void)close(fd);
        }
        if (is_own) {
            return &places[i];
        }
    }
    return &places[count - 1];
}

rbt_status rbt_address_listen(const char *address, char actual[static RBT_ADDRESS_MAX], int *socket)
{
    struct place places[CANDIDATES_MAX];
    size_t count = 0;
    rbt_status st = find_places("listen on", address, places, &count);
    if (st != RBT_OK) {
        return st;
    }
    const struct place *place = pick_own(places, count);
    const int fd = make_socket(place);
    if (fd < 0) {
        return fail_with("listen on", address, errno);
    }
    st = bind_place(address, place, fd);
    if (st == RBT_OK && listen(fd, SOMAXCONN) != 0) {
        st = fail_bind(address, place, errno);
    }
    if (st != RBT_OK) {
        (void)close(fd);
        return st;
    }
    print_place(address, fd, actual);
    *socket = fd;
    return RBT_OK;
}

rbt_status rbt_address_accept(int listener, int *socket)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        tune(fd);
        *socket = fd;
        return RBT_OK;
    }
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
    case EOPNOTSUPP:
        return rbt_fail(RBT_E_IO, "could not accept a connection");
    default: /* nobody waits, or who waited has gone; Linux also passes on errors of the network */
        return RBT_E_BUSY;
    }
}

void rbt_address_describe(int socket, char who[static RBT_ADDRESS_MAX])
{
    union {
        struct sockaddr any;
        struct sockaddr_storage room;
    } address = {0};
    socklen_t size = sizeof address;
    struct ucred peer;
    socklen_t peer_size = sizeof peer;
    char host[RBT_ADDRESS_MAX / 2];
    char port[16];
    if (getpeername(socket, &address.any, &size) == 0 && address.any.sa_family != AF_UNIX &&
        getnameinfo(&address.any, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        (void)snprintf(who, RBT_ADDRESS_MAX,
                       address.any.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    } else if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0) {
        (void)snprintf(who, RBT_ADDRESS_MAX, "this host (pid %d)", (int)peer.pid);
    } else {
        (void)snprintf(who, RBT_ADDRESS_MAX, "an unknown place");
    }
}

rbt_status rbt_address_begin_at(const char *address, size_t first, int *socket)
{
    struct place places[CANDIDATES_MAX];
    size_t count = 0;
    rbt_status st = find_places("reach", address, places, &count);
    for (size_t i = 0; i < count && st == RBT_OK; i++) {
        const struct place *place = &places[(first + i) % count];
        const int fd = make_socket(place);
        if (fd >= 0) {
            tune(fd);
            if (connect(fd, &place->any, place->size) == 0 || errno == EINPROGRESS) {
                *socket = fd;
                return RBT_OK;
            }
        }
        const int error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        if (i + 1 == count) {
            st = fail_with("reach", address, error);
        }
    }
    return st;
}

rbt_status rbt_address_begin(const char *address, int *socket)
{
    return rbt_address_begin_at(address, 0, socket);
}

/* A port that nobody listens on may be given to the very socket that wants to connect to it, and
 * TCP then lets it talk to itself. */
static bool is_itself(const struct place *peer, int socket)
{
    struct place own = {.size = sizeof own.room};
    return peer->any.sa_family != AF_UNIX && getsockname(socket, &own.any, &own.size) == 0 &&
           own.size == peer->size && memcmp(&own.room, &peer->room, own.size) == 0;
}

rbt_status rbt_address_finish(const char *address, int socket)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    struct place peer = {.size = sizeof peer.room};
    if (error == 0 && getpeername(socket, &peer.any, &peer.size) != 0) {
        error = errno == ENOTCONN ? ETIMEDOUT : errno;
    }
    if (error == 0 && is_itself(&peer, socket)) {
        error = ECONNREFUSED;
    }
    return error == 0 ? RBT_OK : fail_with("reach", address, error);
}

/* Waits for the socket to become writable (-1: just waits), or until `deadline`. */
static rbt_status wait_for(int socket, int cancel, rbt_time deadline)
{
    for (;;) { /* ends with an event, or at the deadline */
        const rbt_time left = deadline - rbt_clock_now();
        if (left <= 0) {
            return RBT_E_TIMEOUT;
        }
        struct pollfd fds[] = {{.fd = socket, .events = POLLOUT}, {.fd = cancel, .events = POLLIN}};
        const int wait_ms = (int)((left + MS - 1) / MS); /* at most RBT_ATTEMPT_TIME_MAX */
        (void)poll(fds, 2, wait_ms); /* an error leaves no events: we look at the clock again */
        if (fds[1].revents != 0) {
            return RBT_E_INTERRUPTED;
        }
        if (fds[0].revents != 0) {
            return RBT_OK;
        }
    }
}

static rbt_time earlier(rbt_time a, rbt_time b)
{
    return a < b ? a : b;
}

/* One attempt. */
static rbt_status attempt(const char *address, size_t number, int cancel, rbt_time deadline,
                          int *socket)
{
    int fd = -1;
    rbt_status st = rbt_address_begin_at(address, number, &fd);
    if (st != RBT_OK) {
        return st;
    }
    st = wait_for(fd, cancel, earlier(deadline, rbt_clock_now() + RBT_ATTEMPT_TIME_MAX));
    if (st != RBT_E_INTERRUPTED) {
        st = rbt_address_finish(address, fd); /* also says that nobody has answered */
    }
    if (st != RBT_OK) {
        (void)close(fd);
        return st;
    }
    *socket = fd;
    return RBT_OK;
}

rbt_status rbt_address_connect(const char *address, rbt_time deadline, int cancel, int *socket)
{
    const rbt_time begin = rbt_clock_now();
    rbt_time wait = WAIT_MIN;
    for (size_t number = 0;; number++) { /* ends at the deadline */
        rbt_status st = attempt(address, number, cancel, deadline, socket);
        if (st == RBT_OK || st == RBT_E_INVALID || st == RBT_E_NOMEM) {
            return st;
        }
        const rbt_time now = rbt_clock_now();
        if (st != RBT_E_INTERRUPTED && now < deadline) {
            st = wait_for(-1, cancel, earlier(deadline, now + wait));
        }
        if (st == RBT_E_INTERRUPTED) {
            return rbt_fail(RBT_E_INTERRUPTED, "stopped before %s could be reached", address);
        }
        if (rbt_clock_now() >= deadline) {
            const double seconds = (double)(rbt_clock_now() - begin) / 1e9;
            char why[RBT_ERROR_MAX];
            (void)snprintf(why, sizeof why, "%s", rbt_last_error()); /* cut where it must be */
            return rbt_fail(RBT_E_TIMEOUT,
                            seconds < 10 ? "%s (tried for %.2gs)" : "%s (tried for %.0fs)", why,
                            seconds);
        }
        wait = earlier(2 * wait, RBT_ATTEMPT_WAIT_MAX);
    }
}
