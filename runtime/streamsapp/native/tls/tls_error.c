#include "tls/tls_error.h"

#include <string.h>

#include "tls/openssl.h"

PyObject *sa_tls_error;

int sa_make_tls_error(void) {
    sa_tls_error = PyErr_NewExceptionWithDoc(
        "streamsapp.native.TlsError", "TLS failed: the reason, and what is wrong with the other's certificate or ''.",
        PyExc_OSError, NULL);
    return sa_tls_error ? 0 : -1;
}

PyObject *sa_raise_tls(long verified, int system) {
    unsigned long code = sa_ERR_peek_error();
    const char *reason = code ? sa_ERR_reason_error_string(code) : NULL;
    if (!reason) reason = system ? strerror(system) : "unknown";
    int believed = strcmp(reason, "certificate verify failed") || !verified;
    PyObject *arguments = Py_BuildValue("(ss)", reason, believed ? "" : sa_X509_verify_cert_error_string(verified));
    if (arguments) PyErr_SetObject(sa_tls_error, arguments);
    Py_XDECREF(arguments);
    sa_ERR_clear_error();
    return NULL;
}
