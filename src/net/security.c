/* net/security.c - the key of a cluster, and the TLS contexts made from it.
 *
 * TLS 1.3 only, one cipher suite, no certificates, no tickets, no early data: the external
 * pre-shared key is the only way in, and without it the handshake ends. The key itself is never
 * used for TLS; what is used is derived from it (HKDF-SHA256), so that other uses of it can be
 * added that know nothing of each other.
 *
 * OpenSSL's objects are its own and do not come from base/alloc.h.
 *
 * Threads: any, once open; OpenSSL counts references to its contexts atomically. */
#include "net/security.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/file.h"
#include "base/io.h"

enum {
    PSK_BYTES = 32,
    READ_BUFFER = 64 * 1024, /* of a connection: several records in one system call */
};

static const char IDENTITY[] = "rubato";
static const char CLUSTER_LABEL[] = "rubato cluster";
static const char JOB_LABEL[] = "rubato job";
static const char READER_LABEL[] = "rubato reader";
static const char READER_KEY_LABEL[] = "rubato reader key";
static const unsigned char SUITE[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

struct rbt_security {
    SSL_CTX *server;
    SSL_CTX *client;
    unsigned char psk[PSK_BYTES];
};

static int value_of(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* False if the text is not 64 hexadecimal digits. */
static bool parse_key(const char *text, unsigned char key[static RBT_KEY_BYTES])
{
    if (strnlen(text, RBT_KEY_TEXT) != RBT_KEY_TEXT - 1) {
        return false;
    }
    for (size_t i = 0; i < RBT_KEY_BYTES; i++) {
        const int high = value_of(text[2 * i]);
        const int low = value_of(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        key[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

/* A key that was not drawn: all its bytes are equal, all zero perhaps. */
static bool is_weak(const unsigned char key[static RBT_KEY_BYTES])
{
    return memcmp(key, key + 1, RBT_KEY_BYTES - 1) == 0;
}

static rbt_status refuse_weak(const char *what)
{
    const rbt_status st = rbt_fail(
        RBT_E_DATA, "%s is not a random key: all its digits are equal, or pairs of them", what);
    return rbt_fail_hint(st, "Make one with \"rubato keygen FILE\".");
}

static void print_key(const unsigned char key[static RBT_KEY_BYTES], char text[static RBT_KEY_TEXT])
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < RBT_KEY_BYTES; i++) {
        text[2 * i] = DIGITS[key[i] >> 4];
        text[2 * i + 1] = DIGITS[key[i] & 15];
    }
    text[RBT_KEY_TEXT - 1] = '\0';
}

rbt_status rbt_key_generate(char text[static RBT_KEY_TEXT])
{
    unsigned char key[RBT_KEY_BYTES];
    if (RAND_priv_bytes(key, sizeof key) != 1) {
        ERR_clear_error();
        errno = 0;
        return rbt_fail(RBT_E_IO, "could not make a key: no random numbers are available");
    }
    print_key(key, text);
    OPENSSL_cleanse(key, sizeof key);
    return RBT_OK;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = rbt_io_write(fd, bytes + done, size - done);
        if (wrote < 0 && errno != EINTR) {
            return false;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

rbt_status rbt_key_write(const char *path, const char *text)
{
    RBT_ASSERT(strlen(text) == RBT_KEY_TEXT - 1);
    const int fd = rbt_io_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 && errno == EEXIST) {
        errno = 0; /* the sentence says it all */
        const rbt_status st =
            rbt_fail(RBT_E_IO, "could not write a key to \"%s\": a file of that name exists", path);
        return rbt_fail_hint(st, "Keys are never overwritten. Choose another name, or remove the "
                                 "file if no cluster uses it.");
    }
    if (fd < 0) {
        return rbt_fail(RBT_E_IO, "could not write a key to \"%s\"", path);
    }
    const bool is_written = write_all(fd, text, RBT_KEY_TEXT - 1) && write_all(fd, "\n", 1);
    const int error = errno;
    const bool is_closed = rbt_io_close(fd) == 0;
    if (!is_written || !is_closed) {
        (void)unlink(path); /* half a key is of no use */
        errno = is_written ? errno : error;
        return rbt_fail(RBT_E_IO, "could not write a key to \"%s\"", path);
    }
    return RBT_OK;
}

static rbt_status check_mode(const char *path, int fd)
{
    struct stat status;
    if (rbt_io_stat(fd, &status) != 0) {
        return rbt_fail(RBT_E_IO, "could not read the key \"%s\"", path);
    }
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        errno = 0; /* the sentence says it all */
        const rbt_status st = rbt_fail(
            RBT_E_IO,
            "the key \"%s\" is not safe: users other than its owner may read or write the file",
            path);
        return rbt_fail_hint(st,
                             "Run \"chmod 600 %s\"; if another user may have read it, make a new "
                             "key with \"rubato keygen\".",
                             path);
    }
    return RBT_OK;
}

rbt_status rbt_key_read(const char *path, char text[static RBT_KEY_TEXT])
{
    int fd = -1;
    rbt_status st = rbt_file_open(path, RBT_FILE_REGULAR, &fd);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "could not read the key \"%s\"", path);
    }
    st = check_mode(path, fd);
    char line[RBT_KEY_TEXT + 4] = ""; /* digits, the end of a line, and one too many */
    ssize_t size = 0;
    if (st == RBT_OK) {
        size = rbt_file_fill(fd, line, sizeof line - 1);
        if (size < 0) {
            st = rbt_fail(RBT_E_IO, "could not read the key \"%s\"", path);
        }
    }
    (void)close(fd); /* it was only read */
    if (st != RBT_OK) {
        return st;
    }
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) {
        line[--size] = '\0';
    }
    unsigned char key[RBT_KEY_BYTES];
    if ((size_t)size != RBT_KEY_TEXT - 1 || !parse_key(line, key)) {
        st = rbt_fail(RBT_E_DATA,
                      "\"%s\" does not hold a key, which is one line of %d "
                      "hexadecimal digits",
                      path, RBT_KEY_TEXT - 1);
        st = rbt_fail_hint(st, "Make one with \"rubato keygen FILE\".");
    } else if (is_weak(key)) {
        st = refuse_weak(path);
    } else {
        memcpy(text, line, RBT_KEY_TEXT);
    }
    OPENSSL_cleanse(key, sizeof key);
    OPENSSL_cleanse(line, sizeof line);
    return st;
}

/* HKDF-SHA256 without salt: the key is already uniform. */
static bool derive(const unsigned char key[static RBT_KEY_BYTES], const char *label,
                   unsigned char *to, size_t size)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
    EVP_KDF_CTX *context = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, RBT_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)label,
                                          strlen(label)),
        OSSL_PARAM_construct_end()};
    const bool is_derived = context != NULL && EVP_KDF_derive(context, to, size, parameters) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return is_derived;
}

/* The same of a key as text. */
static rbt_status derive_text(const char *text, const char *label, unsigned char *to, size_t size)
{
    unsigned char key[RBT_KEY_BYTES];
    if (!parse_key(text, key)) {
        return rbt_fail(RBT_E_INVALID, "a key has %d hexadecimal digits", RBT_KEY_TEXT - 1);
    }
    const bool is_derived = derive(key, label, to, size);
    OPENSSL_cleanse(key, sizeof key);
    return is_derived ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not derive a key: out of memory");
}

rbt_status rbt_key_of_readers(const char *job, char readers[static RBT_KEY_TEXT])
{
    unsigned char key[RBT_KEY_BYTES];
    const rbt_status st = derive_text(job, READER_KEY_LABEL, key, sizeof key);
    if (st == RBT_OK) {
        print_key(key, readers);
    }
    OPENSSL_cleanse(key, sizeof key);
    return st;
}

rbt_status rbt_key_permit(const char *text, bool is_reader,
                          unsigned char permit[static RBT_PERMIT_BYTES])
{
    return derive_text(text, is_reader ? READER_LABEL : JOB_LABEL, permit, RBT_PERMIT_BYTES);
}

/* What both callbacks hand to OpenSSL, which takes it; NULL without memory. */
static SSL_SESSION *make_session(SSL *ssl)
{
    const rbt_security *security = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, SUITE);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session == NULL || cipher == NULL ||
        SSL_SESSION_set1_master_key(session, security->psk, PSK_BYTES) != 1 ||
        SSL_SESSION_set_cipher(session, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

/* The client's; `digest` is set when the server has asked for another hello, and then ours fits or
 * nothing does. */
static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *size,
                       SSL_SESSION **session)
{
    *session = NULL;
    if (digest != NULL && !EVP_MD_is_a(digest, "SHA256")) {
        return 1; /* no key for that; the server will not accept us */
    }
    *session = make_session(ssl);
    *identity = (const unsigned char *)IDENTITY;
    *size = sizeof IDENTITY - 1;
    return *session != NULL;
}

/* The server's; a peer with another identity gets no session, and so no connection. */
static int find_session(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session)
{
    *session = NULL;
    if (size != sizeof IDENTITY - 1 || memcmp(identity, IDENTITY, size) != 0) {
        return 1;
    }
    *session = make_session(ssl);
    return *session != NULL;
}

static SSL_CTX *make_context(rbt_security *security, bool is_server)
{
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 || SSL_CTX_set_max_early_data(context, 0) != 1 ||
        SSL_CTX_set_app_data(context, security) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    (void)SSL_CTX_set_options(context,
                              SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, READ_BUFFER);
    if (is_server) {
        SSL_CTX_set_psk_find_session_callback(context, find_session);
    } else {
        SSL_CTX_set_psk_use_session_callback(context, use_session);
        /* A server that shows a certificate instead is refused: nobody is trusted to sign one. */
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    }
    return context;
}

rbt_status rbt_security_open(const char *text, rbt_security **security)
{
    unsigned char key[RBT_KEY_BYTES];
    if (!parse_key(text, key)) {
        return rbt_fail(RBT_E_INVALID, "a key has %d hexadecimal digits", RBT_KEY_TEXT - 1);
    }
    if (is_weak(key)) {
        return refuse_weak("what was given");
    }
    rbt_security *created = rbt_calloc(1, sizeof *created);
    if (created != NULL && derive(key, CLUSTER_LABEL, created->psk, PSK_BYTES)) {
        created->server = make_context(created, true);
        created->client = make_context(created, false);
    }
    OPENSSL_cleanse(key, sizeof key);
    if (created == NULL || created->server == NULL || created->client == NULL) {
        ERR_clear_error();
        rbt_security_close(created);
        return rbt_fail(RBT_E_NOMEM, "could not prepare encryption: out of memory");
    }
    *security = created;
    return RBT_OK;
}

void rbt_security_close(rbt_security *security)
{
    if (security == NULL) {
        return;
    }
    SSL_CTX_free(security->client);
    SSL_CTX_free(security->server);
    OPENSSL_cleanse(security->psk, sizeof security->psk);
    rbt_free(security);
}

rbt_status rbt_security_attach(const rbt_security *security, bool is_server, void **tls)
{
    SSL *ssl = SSL_new(is_server ? security->server : security->client);
    if (ssl == NULL) {
        ERR_clear_error();
        return rbt_fail(RBT_E_NOMEM, "could not prepare encryption: out of memory");
    }
    if (is_server) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
    }
    *tls = ssl;
    return RBT_OK;
}
