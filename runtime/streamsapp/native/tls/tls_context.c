#include "tls/tls_context.h"

#include <errno.h>
#include <string.h>

#include "tls/tls.h"
#include "tls/tls_error.h"

/* Bytes that are taken from a socket at a time, at most: some records of TLS, which have 16 KiB. */
enum { READ_BUFFER = 128 << 10 };

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"verified", NULL};
    int verified = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "p", names, &verified) || sa_find_openssl()) return NULL;
    TlsContext *self = (TlsContext *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    sa_ERR_clear_error();
    self->context = sa_SSL_CTX_new(sa_TLS_client_method());
    if (!self->context) {
        Py_DECREF(self);
        return sa_raise_tls(0, 0);
    }
    long mode = MODE_PARTIAL_WRITE | MODE_MOVING_BUFFER | MODE_AUTO_RETRY;
    sa_SSL_CTX_ctrl(self->context, CONTROL_MODE, mode, NULL);
    sa_SSL_CTX_ctrl(self->context, CONTROL_LEAST_PROTOCOL, TLS_1_2, NULL);
    sa_SSL_CTX_ctrl(self->context, CONTROL_READ_AHEAD, 1, NULL);
    sa_SSL_CTX_set_default_read_buffer_len(self->context, READ_BUFFER);
    sa_SSL_CTX_set_verify(self->context, verified ? VERIFY_PEER : VERIFY_NONE, NULL);
    return (PyObject *)self;
}

static void context_dealloc(TlsContext *self) {
    if (self->context) sa_SSL_CTX_free(self->context); /* connections have it as well */
    Py_XDECREF(self->password);
    Py_TYPE(self)->tp_free(self);
}

/* None, or NULL with TlsError. */
static PyObject *done(int well) {
    int system = errno;
    if (!well) return sa_raise_tls(0, system);
    Py_RETURN_NONE;
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
    const char *path = PyUnicode_AsUTF8(file);
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

static PyObject *context_show(TlsContext *self, PyObject *args) {
    const char *certificate = NULL, *key = NULL;
    PyObject *password = NULL;
    if (!PyArg_ParseTuple(args, "ssS", &certificate, &key, &password)) return NULL;
    Py_XSETREF(self->password, Py_NewRef(password));
    sa_ERR_clear_error();
    errno = 0;
    sa_SSL_CTX_set_default_passwd_cb(self->context, give_password);
    sa_SSL_CTX_set_default_passwd_cb_userdata(self->context, self->password);
    return done(sa_SSL_CTX_use_certificate_chain_file(self->context, certificate) &&
                sa_SSL_CTX_use_PrivateKey_file(self->context, key, FILE_OF_PEM) &&
                sa_SSL_CTX_check_private_key(self->context));
}

static PyObject *context_use_ciphers(TlsContext *self, PyObject *named) {
    const char *list = PyUnicode_AsUTF8(named);
    if (!list) return NULL;
    sa_ERR_clear_error();
    errno = 0;
    return done(sa_SSL_CTX_set_cipher_list(self->context, list));
}

static PyObject *context_connection(TlsContext *self, PyObject *args) {
    int descriptor = -1, checked = 1;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "isp", &descriptor, &name, &checked)) return NULL;
    return sa_tls_of(self->context, descriptor, name, checked);
}

static PyMethodDef context_methods[] = {
    {"trust", (PyCFunction)context_trust, METH_VARARGS,
     "trust(file or None, folder or None): believe these authorities, or the system's"},
    {"check_revoked", (PyCFunction)context_check_revoked, METH_O, "check_revoked(file): believe no certificate in it"},
    {"show", (PyCFunction)context_show, METH_VARARGS, "show(certificate, key, password): files that prove who this is"},
    {"use_ciphers", (PyCFunction)context_use_ciphers, METH_O, "use_ciphers(list): as OpenSSL names them"},
    {"connection", (PyCFunction)context_connection, METH_VARARGS,
     "connection(descriptor, name, checks the name): a Tls over a socket that is connected"},
    {0}};

PyTypeObject sa_tls_context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.TlsContext",
    .tp_basicsize = sizeof(TlsContext),
    .tp_new = context_new,
    .tp_dealloc = (destructor)context_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = context_methods,
};
