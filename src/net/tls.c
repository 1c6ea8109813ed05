/* net/tls.c - one connection's TLS.
 *
 * OpenSSL writes into `out` and never to the socket: a record is only begun when there is room for
 * it, so OpenSSL never has to be asked again for something it could not finish, and several records
 * leave in one system call that raises no SIGPIPE. It reads from the socket itself, as much as its
 * buffer holds.
 *
 * Threads: belongs to the channel's thread. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum {
    RECORD = 16 * 1024,         /* bytes of a full record, before encryption */
    RECORD_ROOM = RECORD + 256, /* and after, with what TLS adds */
    OUT_SIZE = 8 * RECORD_ROOM,
};

struct rbt_tls {
    int socket; /* the channel's */
    SSL *ssl;
    BIO_METHOD *method;
    bool is_done;     /* the handshake */
    bool is_closed;   /* the peer has closed the connection */
    bool is_dry;      /* the last read has emptied the socket */
    int error;        /* errno of the socket, or 0 */
    char *out;        /* OUT_SIZE bytes */
    size_t out_begin; /* what is before is sent */
    size_t out_end;
    char *record; /* RECORD bytes, gathered from small pieces */
    uint64_t reads;
    uint64_t writes;
};

static int bio_write(BIO *bio, const char *bytes, int size)
{
    rbt_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0 || (size_t)size > OUT_SIZE - tls->out_end) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(tls->out + tls->out_end, bytes, (size_t)size);
    tls->out_end += (size_t)size;
    return size;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    rbt_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->is_dry) { /* who polls is told if there is more */
        tls->is_dry = false;
        BIO_set_retry_read(bio);
        return -1;
    }
    if (size <= 0) {
        return 0;
    }
    tls->reads++;
    const ssize_t got = recv(tls->socket, bytes, (size_t)size, 0);
    if (got > 0) {
        tls->is_dry = got < size;
        return (int)got;
    }
    if (got == 0) {
        tls->is_closed = true;
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR) {
        BIO_set_retry_read(bio);
    } else {
        tls->error = errno;
    }
    return -1;
}

/* OpenSSL asks for a flush, which is ours to do; everything else is not supported. */
static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    const rbt_tls *tls = BIO_get_data(bio);
    return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && tls->is_closed) ? 1 : 0;
}

static rbt_status no_memory(void)
{
    ERR_clear_error();
    return rbt_fail(RBT_E_NOMEM, "could not prepare encryption: out of memory");
}

rbt_status rbt_tls_open(const rbt_security *security, int socket, bool is_server, rbt_tls **tls)
{
    rbt_tls *created = rbt_calloc(1, sizeof *created);
    if (created == NULL) {
        return no_memory();
    }
    created->socket = socket;
    created->out = rbt_calloc(OUT_SIZE, 1);
    created->record = rbt_calloc(RECORD, 1);
    created->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "rubato");
    void *ssl = NULL;
    rbt_status st = RBT_OK;
    if (created->out == NULL || created->record == NULL || created->method == NULL ||
        BIO_meth_set_write(created->method, bio_write) != 1 ||
        BIO_meth_set_read(created->method, bio_read) != 1 ||
        BIO_meth_set_ctrl(created->method, bio_control) != 1) {
        st = no_memory();
    } else {
        st = rbt_security_attach(security, is_server, &ssl);
        created->ssl = ssl;
    }
    if (st == RBT_OK) {
        BIO *bio = BIO_new(created->method);
        if (bio != NULL) {
            BIO_set_data(bio, created);
            BIO_set_init(bio, 1);
            SSL_set_bio(created->ssl, bio, bio); /* takes it, both times with one reference */
        } else {
            st = no_memory();
        }
    }
    if (st != RBT_OK) {
        rbt_tls_close(created);
        return st;
    }
    *tls = created;
    return RBT_OK;
}

/* Sends what is in `out`. */
static rbt_status push(rbt_tls *tls)
{
    if (tls->out_begin == tls->out_end) {
        return RBT_OK;
    }
    tls->writes++;
    const ssize_t sent =
        send(tls->socket, tls->out + tls->out_begin, tls->out_end - tls->out_begin, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EINTR) {
            return RBT_E_BUSY;
        }
        if (errno == EPIPE || errno == ECONNRESET) {
            return rbt_fail(RBT_E_CLOSED, "the peer closed the connection");
        }
        return rbt_fail(RBT_E_IO, "could not write to the peer");
    }
    tls->out_begin += (size_t)sent;
    if (tls->out_begin < tls->out_end) {
        return RBT_E_BUSY;
    }
    tls->out_begin = 0;
    tls->out_end = 0;
    return RBT_OK;
}

void rbt_tls_close(rbt_tls *tls)
{
    if (tls == NULL) {
        return;
    }
    if (tls->is_done && !tls->is_closed && tls->error == 0 && tls->out_end == 0) {
        struct rbt_error_record error; /* why it is closed is more important than how */
        rbt_error_save(&error);
        (void)SSL_shutdown(tls->ssl); /* says goodbye; the peer can do without */
        (void)push(tls);
        rbt_error_restore(&error);
    }
    SSL_free(tls->ssl);
    BIO_meth_free(tls->method);
    ERR_clear_error();
    rbt_free(tls->record);
    rbt_free(tls->out);
    rbt_free(tls);
}

/* After a call of OpenSSL has failed: RBT_E_BUSY, or why there will be no more. */
static rbt_status explain(rbt_tls *tls, int result)
{
    const int error = SSL_get_error(tls->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return RBT_E_BUSY;
    }
    ERR_clear_error(); /* what OpenSSL has to say is for those who know TLS */
    if (error == SSL_ERROR_ZERO_RETURN || tls->is_closed || tls->error == ECONNRESET) {
        return rbt_fail(RBT_E_CLOSED, "the peer closed the connection%s",
                        tls->is_done ? "" : " before it proved that it has this cluster's key");
    }
    if (tls->error != 0) {
        errno = tls->error;
        return rbt_fail(RBT_E_IO, "could not read from the peer");
    }
    if (!tls->is_done) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer does not have this cluster's key");
    }
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent data that is not encrypted correctly");
}

/* Tells the peer, if it still listens, that there will be no connection. OpenSSL says nothing to
 * those whose bytes are not TLS at all; but a channel without a key understands an alert. */
static void say_no(rbt_tls *tls)
{
    static const char ALERT[] = {0x15, 3, 3, 0, 2, 2, 40}; /* fatal: handshake failure */
    struct rbt_error_record error;
    rbt_error_save(&error);
    if (tls->writes == 0 && tls->out_end == 0) {
        memcpy(tls->out, ALERT, sizeof ALERT);
        tls->out_end = sizeof ALERT;
    }
    (void)push(tls);
    rbt_error_restore(&error);
}

rbt_status rbt_tls_handshake(rbt_tls *tls)
{
    if (tls->is_done) {
        return RBT_OK;
    }
    ERR_clear_error();
    const int result = SSL_do_handshake(tls->ssl);
    rbt_status st = RBT_OK;
    if (result != 1) {
        st = explain(tls, result);
    } else if (SSL_session_reused(tls->ssl) != 1) { /* nothing else can be negotiated */
        st = rbt_fail(RBT_E_PROTOCOL, "the peer does not have this cluster's key");
    } else {
        tls->is_done = true;
    }
    if (st != RBT_OK && st != RBT_E_BUSY) {
        say_no(tls);
        return st;
    }
    const rbt_status pushed = push(tls); /* if it is busy, there is more to send later */
    return pushed == RBT_OK || pushed == RBT_E_BUSY ? st : pushed;
}

rbt_status rbt_tls_read(rbt_tls *tls, char *to, size_t size, size_t *got)
{
    RBT_ASSERT(tls->is_done);
    RBT_ASSERT(size > 0);
    ERR_clear_error();
    const int result = SSL_read_ex(tls->ssl, to, size, got);
    return result == 1 ? RBT_OK : explain(tls, result);
}

bool rbt_tls_has_pending(const rbt_tls *tls)
{
    return tls->is_done && SSL_has_pending(tls->ssl) == 1;
}

/* The next piece of at most a record; small ones are put together. */
static size_t gather(const struct iovec *pieces, size_t count, size_t skip, char *record,
                     const char **bytes)
{
    size_t size = 0;
    for (size_t i = 0; i < count && size < RECORD; i++) {
        if (skip >= pieces[i].iov_len) {
            skip -= pieces[i].iov_len;
            continue;
        }
        const char *from = (const char *)pieces[i].iov_base + skip;
        const size_t left = pieces[i].iov_len - skip;
        skip = 0;
        if (size == 0 && left >= RECORD) {
            *bytes = from;
            return RECORD;
        }
        const size_t part = left < RECORD - size ? left : RECORD - size;
        memcpy(record + size, from, part);
        size += part;
    }
    *bytes = record;
    return size;
}

rbt_status rbt_tls_write(rbt_tls *tls, const struct iovec *pieces, size_t count, size_t *taken)
{
    RBT_ASSERT(tls->is_done || count == 0);
    *taken = 0;
    for (;;) { /* ends when all is taken or the socket is full */
        if (OUT_SIZE - tls->out_end < RECORD_ROOM) {
            const rbt_status st = push(tls);
            if (st != RBT_OK) {
                return st;
            }
        }
        const char *bytes = NULL;
        const size_t size = gather(pieces, count, *taken, tls->record, &bytes);
        if (size == 0) {
            return push(tls);
        }
        size_t written = 0;
        ERR_clear_error();
        const int result = SSL_write_ex(tls->ssl, bytes, size, &written);
        if (result != 1) {
            const rbt_status st = explain(tls, result);
            RBT_ASSERT(st != RBT_E_BUSY); /* there was room for all of it */
            return st;
        }
        RBT_ASSERT(written == size);
        *taken += size;
    }
}

size_t rbt_tls_unsent(const rbt_tls *tls)
{
    return tls->out_end - tls->out_begin;
}

uint64_t rbt_tls_reads(const rbt_tls *tls)
{
    return tls->reads;
}

uint64_t rbt_tls_writes(const rbt_tls *tls)
{
    return tls->writes;
}
