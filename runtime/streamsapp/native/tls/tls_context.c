#include "tls/tls_context.h"

#include <errno.h>
#include <string.h>

#include "tls/tls.h"
#include "tls/tls_error.h"

/* Bytes that are taken from a socket at a time, at most: some records of TLS, which have 16 KiB. */
enum { READ_BUFFER = 128 << 10 };

static const Field context_fields[] = {FIELD(TlsContext, verified, TRUTH), FIELD(TlsContext, password, OWN), {0}};

static int complete_context(PyObject *made) {
    TlsContext *self = (TlsContext *)made;
    if (sa_find_openssl()) return -1;
    sa_ERR_clear_error();
    self->context = sa_SSL_CTX_new(sa_TLS_client_method());
    if (!self->context) {
        sa_raise_tls(0, 0);
        return -1;
    }
    long mode = MODE_PARTIAL_WRITE | MODE_MOVING_BUFFER | MODE_AUTO_RETRY;
    sa_SSL_CTX_ctrl(self->context, CONTROL_MODE, mode, NULL);
    sa_SSL_CTX_ctrl(self->context, CONTROL_LEAST_PROTOCOL, TLS_1_2, NULL);
    sa_SSL_CTX_ctrl(self->context, CONTROL_READ_AHEAD, 1, NULL);
    sa_SSL_CTX_set_default_read_buffer_len(self->context, READ_BUFFER);
    sa_SSL_CTX_set_verify(self->context, self->verified ? VERIFY_PEER : VERIFY_NONE, NULL);
    return 0;
}

static void context_free(PyObject *object) {
    TlsContext *self = (TlsContext *)object;
    if (self->context) sa_SSL_CTX_free(self->context); /* connections have it as well */
    sa_free(object);
}

/* None, or NULL with TlsError. */
static PyObject *done(int well) {
    int system = errno;
    if (!well) return sa_raise_tls(0, system);
    Py_RETURN_NONE;
}

/* A text as C has it; NULL with an exception, also for one with a zero in it. */
static const char *text_without_nul(PyObject *given) {
    Py_ssize_t size = 0;
    const char *found = PyUnicode_AsUTF8AndSize(given, &size);
    if (!found || !memchr(found, 0, (size_t)size)) return found;
    PyErr_SetString(PyExc_ValueError, "a text has a zero in it");
    return NULL;
}

static PyObject *context_trust(TlsContext *self, PyObject *args) {
    const char *file = NULL, *folder = NULL;
    if (!PyArg_ParseTuple(args, "zz", &file, &folder)) return NULL;
    sa_ERR_clear_error();
    errno = 0;
    return done(file || folder ? sa_SSL_CTX_load_verify_locations(self->context, file, folder)
                               : sa_SSL_CTX_set_default_verify_paths(self->context));
}

static PyObject *context_check_revoked(TlsContext *self, PyObject *file) {
    const char *path = text_without_nul(file);
    if (!path) return NULL;
    sa_ERR_clear_error();
    errno = 0;
    return done(sa_SSL_CTX_load_verify_locations(self->context, path, NULL) &&
                sa_X509_STORE_set_flags(sa_SSL_CTX_get_cert_store(self->context), CHECK_REVOKED));
}

/* Gives OpenSSL the password of a key, or none: it never asks at a terminal. */
static int give_password(char *to, int size, int writes, void *given) {
    (void)writes;
    PyObject *password = given;
    Py_ssize_t length = PyBytes_GET_SIZE(password);
    if (length > size) return 0;
    memcpy(to, PyBytes_AS_STRING(password), (size_t)length);
    return (int)length;
}

/* The arguments of show(). */
typedef struct {
    PyObject *certificate, *key, *password;
} Shown;

static const Field shown_fields[] = {FIELD(Shown, certificate, OBJECT, .type = &PyUnicode_Type),
                                     FIELD(Shown, key, OBJECT, .type = &PyUnicode_Type),
                                     FIELD(Shown, password, OBJECT, .type = &PyBytes_Type),
                                     {0}};

static PyObject *context_show(TlsContext *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Shown shown;
    if (sa_take_fields("show", shown_fields, given, count, names, &shown)) return NULL;
    const char *certificate = text_without_nul(shown.certificate),
               *key = certificate ? text_without_nul(shown.key) : NULL;
    if (!key) return NULL;
    Py_XSETREF(self->password, Py_NewRef(shown.password));
    sa_ERR_clear_error();
    errno = 0;
    sa_SSL_CTX_set_default_passwd_cb(self->context, give_password);
    sa_SSL_CTX_set_default_passwd_cb_userdata(self->context, self->password);
    return done(sa_SSL_CTX_use_certificate_chain_file(self->context, certificate) &&
                sa_SSL_CTX_use_PrivateKey_file(self->context, key, FILE_OF_PEM) &&
                sa_SSL_CTX_check_private_key(self->context));
}

static PyObject *context_use_ciphers(TlsContext *self, PyObject *named) {
    const char *list = text_without_nul(named);
    if (!list) return NULL;
    sa_ERR_clear_error();
    errno = 0;
    return done(sa_SSL_CTX_set_cipher_list(self->context, list));
}

/* The arguments of connection(). */
typedef struct {
    int descriptor;
    PyObject *name;
    char checked;
} Connecting;

static const Field connecting_fields[] = {FIELD(Connecting, descriptor, INT),
                                          FIELD(Connecting, name, OBJECT, .type = &PyUnicode_Type),
                                          FIELD(Connecting, checked, TRUTH),
                                          {0}};

static PyObject *context_connection(TlsContext *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Connecting to;
    if (sa_take_fields("connection", connecting_fields, given, count, names, &to)) return NULL;
    const char *name = text_without_nul(to.name);
    return name ? sa_tls_of(self->context, to.descriptor, name, to.checked) : NULL;
}

static PyMethodDef context_methods[] = {
    {"trust", (PyCFunction)context_trust, METH_VARARGS,
     "trust(file or None, folder or None): believe these authorities, or the system's"},
    {"check_revoked", (PyCFunction)context_check_revoked, METH_O, "check_revoked(file): believe no certificate in it"},
    {"show", (PyCFunction)(void (*)(void))context_show, METH_FASTCALL | METH_KEYWORDS,
     "show(*, certificate, key, password): files that prove who this is"},
    {"use_ciphers", (PyCFunction)context_use_ciphers, METH_O, "use_ciphers(list): as OpenSSL names them"},
    {"connection", (PyCFunction)(void (*)(void))context_connection, METH_FASTCALL | METH_KEYWORDS,
     "connection(*, descriptor, name, checked): a Tls over a socket that is connected"},
    {0}};

MadeType sa_tls_context_type = {
    .type = {MADE(TlsContext), .tp_dealloc = context_free, .tp_flags = Py_TPFLAGS_DEFAULT,
             .tp_methods = context_methods},
    .fields = context_fields,
    .complete = complete_context,
};
