#include "tls/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <sys/socket.h>

#include "tls/tls_error.h"

typedef struct {
    PyObject_HEAD
    Ssl *ssl;
    int descriptor;
    char busy;    /* true while a thread is in OpenSSL, without the interpreter's lock */
    char closing; /* true if it is to be freed when that thread comes back */
    char wants_room, pending;
} Tls;

/* The outcome of a call of OpenSSL's. */
typedef struct {
    int kind;
    int system;
    size_t bytes;
} Outcome;

static int is_address(const char *name) {
    unsigned char found[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, found) == 1 || inet_pton(AF_INET6, name, found) == 1;
}

static int name_it(Ssl *ssl, const char *name, int checked) {
    VerifyParameters *parameters = sa_SSL_get0_param(ssl);
    int address = is_address(name);
    if (!address && sa_SSL_ctrl(ssl, CONTROL_SERVER_NAME, 0, (void *)(uintptr_t)name) != 1) return 0;
    if (!checked) return 1;
    sa_X509_VERIFY_PARAM_set_hostflags(parameters, WHOLE_WILDCARDS);
    return address ? sa_X509_VERIFY_PARAM_set1_ip_asc(parameters, name)
                   : sa_X509_VERIFY_PARAM_set1_host(parameters, name, 0);
}

PyObject *sa_tls_of(SslContext *context, int descriptor, const char *name, int checked) {
    Tls *self = (Tls *)sa_tls_type.tp_alloc(&sa_tls_type, 0);
    if (!self) return NULL;
    sa_ERR_clear_error();
    self->descriptor = descriptor;
    self->ssl = sa_SSL_new(context);
    if (self->ssl && name_it(self->ssl, name, checked) && sa_SSL_set_fd(self->ssl, descriptor) == 1)
        return (PyObject *)self;
    Py_DECREF(self);
    return sa_raise_tls(0, 0);
}

static void tls_free(Tls *self) {
    if (self->ssl) sa_SSL_free(self->ssl);
    self->ssl = NULL;
}

static void tls_dealloc(Tls *self) {
    tls_free(self);
    Py_TYPE(self)->tp_free(self);
}

/* 0, or -1 with an exception: a connection is one thread's. */
static int begin(Tls *self) {
    if (self->busy) PyErr_SetString(PyExc_RuntimeError, "two threads use one TLS connection at a time");
    else if (!self->ssl) PyErr_SetString(PyExc_OSError, "the connection is closed");
    else {
        self->busy = 1;
        return 0;
    }
    return -1;
}

/* Returns 1 if all went well or the other side has ended; 0 with an exception otherwise. */
static int end(Tls *self, Outcome outcome) {
    long verified = outcome.kind == SSL_FAILED && self->ssl ? sa_SSL_get_verify_result(self->ssl) : 0;
    self->busy = 0;
    self->wants_room = outcome.kind == SSL_WANTS_WRITE;
    if (self->closing) tls_free(self);
    if (outcome.kind == SSL_NO_ERROR || outcome.kind == SSL_ENDED || outcome.bytes) return 1;
    if (outcome.kind == SSL_WANTS_READ || outcome.kind == SSL_WANTS_WRITE) PyErr_SetNone(PyExc_BlockingIOError);
    else if (outcome.kind == SSL_SYSTEM && outcome.system) {
        errno = outcome.system;
        PyErr_SetFromErrno(PyExc_OSError);
    } else sa_raise_tls(verified, 0);
    return 0;
}

/* OpenSSL's answer to a call that did not go well. A peer that hangs up without a word has ended, too: an answer that
 * is cut is found by its length. */
static Outcome failed(Ssl *ssl, int result, size_t bytes) {
    int system = errno, kind = sa_SSL_get_error(ssl, result);
    unsigned long code = kind == SSL_FAILED ? sa_ERR_peek_error() : 0;
    const char *reason = code ? sa_ERR_reason_error_string(code) : NULL;
    int cut = (kind == SSL_SYSTEM && !system) || (reason && !strcmp(reason, "unexpected eof while reading"));
    return (Outcome){.kind = cut ? SSL_ENDED : kind, .system = system, .bytes = bytes};
}

/* The outcome of a write that failed: the peer's alert if one waits to be read, else what the system says. Under
 * TLS 1.3 a peer refuses a client after the handshake, and hangs up: a write may meet that first. */
static Outcome failed_write(Ssl *ssl) {
    enum { RECORDS = 64 }; /* that a peer may have sent before its alert: it cannot keep the thread here */
    char unwanted[4096];
    size_t read;
    Outcome outcome = failed(ssl, 0, 0);
    if (outcome.kind != SSL_SYSTEM) return outcome;
    for (int i = 0; i < RECORDS; i++) {
        sa_ERR_clear_error();
        if (sa_SSL_read_ex(ssl, unwanted, sizeof unwanted, &read) != 1) break;
    }
    unsigned long code = sa_ERR_peek_error();
    const char *reason = code ? sa_ERR_reason_error_string(code) : NULL;
    if (reason && strstr(reason, "alert")) outcome.kind = SSL_FAILED;
    return outcome;
}

static PyObject *tls_shake_hands(Tls *self, PyObject *unused) {
    (void)unused;
    if (begin(self)) return NULL;
    Outcome outcome = {0};
    Ssl *ssl = self->ssl;
    Py_BEGIN_ALLOW_THREADS
    sa_ERR_clear_error();
    errno = 0;
    int result = sa_SSL_connect(ssl);
    if (result != 1) outcome = failed(ssl, result, 0);
    Py_END_ALLOW_THREADS
    if (!end(self, outcome)) return NULL;
    if (outcome.kind == SSL_ENDED) return PyErr_Format(PyExc_ConnectionError, "closed by the broker");
    Py_RETURN_NONE;
}

/* Has the system hold back a part of a packet while records of TLS are written, and send it when that is over. */
static void hold_back(int descriptor, int on) {
#ifdef TCP_CORK
    setsockopt(descriptor, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
#endif
}

/* Writes until all is taken or there is no room. Each record is a call of the system's. */
static Outcome write_all(Ssl *ssl, int descriptor, const char *from, size_t size) {
    enum { RECORD = 16 << 10 };
    Outcome outcome = {0};
    size_t written = 0;
    if (size > RECORD) hold_back(descriptor, 1);
    while (written < size) {
        size_t more = 0;
        sa_ERR_clear_error();
        errno = 0;
        if (sa_SSL_write_ex(ssl, from + written, size - written, &more) != 1) {
            outcome = written ? failed(ssl, 0, written) : failed_write(ssl); /* what is wrong is met again */
            break;
        }
        written += more;
    }
    if (size > RECORD) hold_back(descriptor, 0);
    outcome.bytes = written;
    return outcome;
}

static PyObject *tls_send(Tls *self, PyObject *given) {
    Py_buffer data;
    if (PyObject_GetBuffer(given, &data, PyBUF_SIMPLE)) return NULL;
    if (begin(self)) {
        PyBuffer_Release(&data);
        return NULL;
    }
    Outcome outcome;
    Ssl *ssl = self->ssl;
    Py_BEGIN_ALLOW_THREADS
    outcome = write_all(ssl, self->descriptor, data.buf, (size_t)data.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (!end(self, outcome)) return NULL;
    if (outcome.kind == SSL_ENDED) return PyErr_Format(PyExc_ConnectionError, "closed by the broker");
    return PyLong_FromSize_t(outcome.bytes);
}

/* Reads until the buffer is full or nothing more is there. */
static Outcome read_all(Ssl *ssl, char *to, size_t size) {
    size_t read = 0;
    while (read < size) {
        size_t more = 0;
        sa_ERR_clear_error();
        errno = 0;
        if (sa_SSL_read_ex(ssl, to + read, size - read, &more) != 1) return failed(ssl, 0, read);
        read += more;
    }
    return (Outcome){.kind = SSL_NO_ERROR, .bytes = read};
}

static PyObject *tls_recv_into(Tls *self, PyObject *given) {
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, PyBUF_WRITABLE)) return NULL;
    if (begin(self)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Outcome outcome;
    Ssl *ssl = self->ssl;
    Py_BEGIN_ALLOW_THREADS
    outcome = read_all(ssl, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    /* The end, or the error, is met again with the next call. */
    self->pending = outcome.kind == SSL_NO_ERROR && sa_SSL_has_pending(ssl);
    return end(self, outcome) ? PyLong_FromSize_t(outcome.bytes) : NULL;
}

static PyObject *tls_close(Tls *self, PyObject *unused) {
    (void)unused;
    self->closing = 1;
    if (!self->busy) tls_free(self);
    Py_RETURN_NONE;
}

static PyObject *tls_version(Tls *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(self->ssl ? sa_SSL_get_version(self->ssl) : "");
}

static PyObject *tls_cipher(Tls *self, void *unused) {
    (void)unused;
    const SslCipher *cipher = self->ssl ? sa_SSL_get_current_cipher(self->ssl) : NULL;
    return PyUnicode_FromString(cipher ? sa_SSL_CIPHER_get_name(cipher) : "");
}

static PyMethodDef tls_methods[] = {
    {"shake_hands", (PyCFunction)tls_shake_hands, METH_NOARGS, "Begin, or go on after BlockingIOError."},
    {"send", (PyCFunction)tls_send, METH_O, "send(data): the number of bytes that were taken"},
    {"recv_into", (PyCFunction)tls_recv_into, METH_O, "recv_into(view): fills it with what is there; 0 at the end"},
    {"close", (PyCFunction)tls_close, METH_NOARGS, "Free it; the socket is its owner's."},
    {0}};
static PyMemberDef tls_members[] = {{"wants_room", T_BOOL, offsetof(Tls, wants_room), READONLY, NULL},
                                    {"pending", T_BOOL, offsetof(Tls, pending), READONLY, NULL},
                                    {0}};
static PyGetSetDef tls_properties[] = {
    {"version", (getter)tls_version, NULL, "As TLSv1.3.", NULL},
    {"cipher", (getter)tls_cipher, NULL, "As TLS_AES_256_GCM_SHA384; empty before the handshake.", NULL},
    {0}};

PyTypeObject sa_tls_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Tls",
    .tp_basicsize = sizeof(Tls),
    .tp_dealloc = (destructor)tls_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = tls_methods,
    .tp_members = tls_members,
    .tp_getset = tls_properties,
};
