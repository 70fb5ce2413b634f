/* Errors of TLS as exceptions. Called by tls.h and tls_context.h, with the interpreter's lock. */
#ifndef SA_TLS_TLS_ERROR_H
#define SA_TLS_TLS_ERROR_H

#include <Python.h>

/* TlsError(reason, what is wrong with the other side's certificate or ""), an OSError. */
extern PyObject *sa_tls_error;

/* 0, or -1 with an exception. */
int sa_make_tls_error(void);

/* Raises TlsError with the first error that OpenSSL has noted, or with the system's. Returns NULL. */
PyObject *sa_raise_tls(long verified, int system);

#endif
